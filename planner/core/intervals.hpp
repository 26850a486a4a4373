// Time intervals and operations on sets of them.
#pragma once

#include <vector>

namespace dtfm {

struct Interval {
  double begin = 0, end = 0;  // s
};

/// Returns the union of `intervals` as ascending, disjoint ones.
std::vector<Interval> unite(std::vector<Interval> intervals);

/// Seconds of `window` that lie in at least one of `intervals`.
double union_length(std::vector<Interval> intervals, Interval window);

/// Seconds that lie in at least one of `intervals`.
double union_length(std::vector<Interval> intervals);

/// Returns the parts of `intervals` inside `window`.
std::vector<Interval> clip(const std::vector<Interval>& intervals, Interval window);

/// Returns the parts of `intervals` outside all `holes`, which must be ascending and disjoint.
std::vector<Interval> subtract(const std::vector<Interval>& intervals, const std::vector<Interval>& holes);

/// Adds up the seconds that lie in at least one interval. Intervals come in groups.
class UnionLength {
 public:
  /// `overlaps_next`: whether the next group may have some of the same seconds; others may not.
  void add(std::vector<Interval> group, bool overlaps_next);
  double seconds() const { return seconds_; }

 private:
  double seconds_ = 0;
  std::vector<Interval> last_;  // the group before, if it may overlap; ascending and disjoint
};

}  // namespace dtfm
