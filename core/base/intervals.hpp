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

/// Accumulates the length of a union of intervals, added group by group.
class UnionLength {
 public:
  /// `overlaps_next`: whether the next group may overlap this one; later groups must not. `times`: number of
  /// copies of the group to add, shifted in time so that they do not overlap; 1 if `overlaps_next`.
  void add(const std::vector<Interval>& group, bool overlaps_next, int times = 1);
  double seconds() const { return seconds_; }

 private:
  double seconds_ = 0;
  std::vector<Interval> last_;  // those of earlier groups that may overlap
};

}  // namespace dtfm
