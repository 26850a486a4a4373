// Stretches of time, and how much of it they cover together.
#pragma once

#include <vector>

namespace dtfm {

struct Interval {
  double begin = 0, end = 0;
};

/// Seconds of `window` that lie in at least one of `intervals`.
double union_length(std::vector<Interval> intervals, Interval window);

/// Seconds that lie in at least one of `intervals`.
double union_length(std::vector<Interval> intervals);

/// What of `intervals` lies in `window`.
std::vector<Interval> clip(const std::vector<Interval>& intervals, Interval window);

/// What of `intervals` lies in none of `holes`, which are ascending and do not overlap.
std::vector<Interval> subtract(const std::vector<Interval>& intervals, const std::vector<Interval>& holes);

}  // namespace dtfm
