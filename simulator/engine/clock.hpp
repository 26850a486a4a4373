// Rounding of simulated time to a fixed grid.
#pragma once

#include <cmath>

namespace dtfm::sim {

/// Rounds a time, in seconds since the start, to a grid of 10 ps. Events that happen at the same instant
/// according to different sums then have exactly equal times, and 1.05 s is the double nearest to 1.05. After
/// six hours the resolution of a double is coarser than the grid, and times are returned unchanged.
inline double round_to_tick(double seconds) {
  constexpr double ticks_per_second = 1e11, exact = 0x1p51;
  const double ticks = seconds * ticks_per_second;
  if (!(ticks < exact)) return seconds;
  // Adding and subtracting 1.5 · 2⁵² rounds to an integer (requires round-to-nearest and no fast-math).
  return ((ticks + 3 * exact) - 3 * exact) / ticks_per_second;
}

}  // namespace dtfm::sim
