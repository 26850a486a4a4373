// Reads and writes the simulator's calibration constants: those of configs/calibrations, which are compiled
// in, and the output of dtfm-calibrate, schema dtfm-calibration/1 (docs/files/calibration.md).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "core/cluster/calibration.hpp"
#include "core/plan/job.hpp"
#include "core/cluster/topology.hpp"
#include "core/io/text/named_file.hpp"
#include "core/io/text/yaml_reader.hpp"

namespace dtfm::io {

/// The calibration of this name in configs/calibrations. Throws Error if there is none.
FittedCalibration shipped_calibration(std::string_view name);

/// The calibration that `given` names, which is a shipped one or a file; without it that of the job, else
/// that of the topology, else the neutral one. Throws Error.
FittedCalibration calibration_for(const std::optional<std::string>& given, const Job& job,
                                  const Topology& topology);

/// Reads the key `calibration` of a job or a topology: the name of a shipped calibration or of a file, or the
/// constants themselves.
FittedCalibration read_calibration(const YamlValue& value, const FileReader& open_file);

/// The constants of a file, and their uncertainty if the file has it. Throws Error at file:line:column.
FittedCalibration parse_calibration(std::string text, std::string file);

/// JSON that parse_calibration reads back as the same constants and spread.
nlohmann::ordered_json calibration_json(const FittedCalibration& calibration);
/// The name of a shipped calibration, or the constants: what read_calibration reads.
nlohmann::ordered_json calibration_reference_json(const FittedCalibration& calibration);

}  // namespace dtfm::io
