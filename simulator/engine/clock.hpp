// Simulated time.
#pragma once

#include <cmath>

namespace dtfm::sim {

/// Dates are seconds since the start, kept on a grid of 10 ps: what ends at the same instant by different
/// sums does so exactly, and 1.05 s is the double nearest to 1.05. After six hours the grid is that of a
/// double.
inline double round_to_tick(double seconds) {
  constexpr double ticks_per_second = 1e11, exact = 0x1p51;
  const double ticks = seconds * ticks_per_second;
  if (!(ticks < exact)) return seconds;
  // Adding and subtracting 1.5 · 2⁵² rounds to whole numbers (rounding to nearest, no fast-math).
  return ((ticks + 3 * exact) - 3 * exact) / ticks_per_second;
}

}  // namespace dtfm::sim
