// Stretches of time, and how much of it they cover together.
#pragma once

#include <vector>

namespace dtfm {

struct Interval {
  double begin = 0, end = 0;
};

/// Seconds of `window` that lie in at least one of `intervals`.
double covered(std::vector<Interval> intervals, Interval window);

/// Seconds that lie in at least one of `intervals`.
double covered(std::vector<Interval> intervals);

}  // namespace dtfm
