// The constants of the simulator's model as a file: configs/simulator.yaml, compiled in.
#pragma once

#include <string>

#include "simulator/model/constants.hpp"

namespace dtfm {

/// configs/simulator.yaml.
SimConstants built_in_constants();

/// Throws Error at file:line:column.
SimConstants parse_constants(std::string text, std::string file);

}  // namespace dtfm
