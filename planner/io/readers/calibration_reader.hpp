// The constants of the simulator's model as a file: configs/calibration.yaml, compiled in, and what
// dtfm-calibrate writes, schema dtfm-calibration/1 (simulator/calibration/README.md).
#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "planner/core/calibration.hpp"

namespace dtfm::io {

/// configs/calibration.yaml.
Calibration built_in_calibration();

/// The constants of a file, and how well they are known where it says so. Throws Error at file:line:column.
FittedCalibration parse_calibration(std::string text, std::string file);
FittedCalibration read_calibration(const std::filesystem::path& file);

/// Reads back as the same constants and spread.
nlohmann::ordered_json calibration_json(const FittedCalibration& calibration);

}  // namespace dtfm::io
