// The value of a time, a rate or a bound that is unlimited.
#pragma once

#include <limits>

namespace dtfm {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace dtfm
