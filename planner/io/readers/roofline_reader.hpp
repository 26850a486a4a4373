// The constants of the roofline: configs/roofline.yaml.
#pragma once

#include <string>

#include "planner/core/roofline.hpp"

namespace dtfm::io {

/// That of configs/roofline.yaml, which is part of the program.
Roofline built_in_roofline();
/// Throws Error at file:line:column.
Roofline parse_roofline(std::string text, std::string file);

}  // namespace dtfm::io
