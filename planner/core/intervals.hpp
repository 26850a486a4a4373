// Time intervals and operations on sets of them.
#pragma once

#include <vector>

namespace dtfm {

struct Interval {
  double begin = 0, end = 0;  // s
};

/// Seconds of `window` that lie in at least one of `intervals`.
double union_length(std::vector<Interval> intervals, Interval window);

/// Seconds that lie in at least one of `intervals`.
double union_length(std::vector<Interval> intervals);

/// Returns the parts of `intervals` inside `window`.
std::vector<Interval> clip(const std::vector<Interval>& intervals, Interval window);

/// Returns the parts of `intervals` outside all `holes`, which must be ascending and disjoint.
std::vector<Interval> subtract(const std::vector<Interval>& intervals, const std::vector<Interval>& holes);

}  // namespace dtfm
