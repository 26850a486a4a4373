// Reads the constants of the roofline model: configs/roofline.yaml.
#pragma once

#include <string>

#include "core/plan/roofline.hpp"

namespace dtfm::io {

/// The constants of configs/roofline.yaml, which is compiled in.
Roofline built_in_roofline();
/// Throws Error at file:line:column.
Roofline parse_roofline(std::string text, std::string file);

}  // namespace dtfm::io
