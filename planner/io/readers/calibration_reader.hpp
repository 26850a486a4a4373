// Reads and writes the simulator's calibration constants: configs/calibration.yaml, which is compiled in, and
// the output of dtfm-calibrate, schema dtfm-calibration/1 (docs/files/calibration.md).
#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "planner/core/calibration.hpp"

namespace dtfm::io {

/// The constants of configs/calibration.yaml.
Calibration built_in_calibration();

/// The constants of a file, and their uncertainty if the file has it. Throws Error at file:line:column.
FittedCalibration parse_calibration(std::string text, std::string file);
FittedCalibration read_calibration(const std::filesystem::path& file);

/// JSON that parse_calibration reads back as the same constants and spread.
nlohmann::ordered_json calibration_json(const FittedCalibration& calibration);

}  // namespace dtfm::io
