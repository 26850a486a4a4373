// The constants of the simulator's model as a file: configs/calibration.yaml, compiled in.
#pragma once

#include <string>

#include "planner/core/calibration.hpp"

namespace dtfm {

/// configs/calibration.yaml.
Calibration built_in_calibration();

/// Throws Error at file:line:column.
Calibration parse_calibration(std::string text, std::string file);

}  // namespace dtfm
