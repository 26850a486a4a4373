#include "core/base/intervals.hpp"

#include <algorithm>
#include <limits>

namespace dtfm {

double union_length(std::vector<Interval> intervals, Interval window) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  double sum = 0, until = window.begin;
  for (const Interval& interval : intervals) {
    const double begin = std::max(interval.begin, until), end = std::min(interval.end, window.end);
    if (end <= begin) continue;
    sum += end - begin;
    until = end;
  }
  return sum;
}

double union_length(std::vector<Interval> intervals) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return union_length(std::move(intervals), {-infinity, infinity});
}

std::vector<Interval> clip(const std::vector<Interval>& intervals, Interval window) {
  std::vector<Interval> parts;
  for (const Interval& it : intervals) {
    const Interval part{std::max(it.begin, window.begin), std::min(it.end, window.end)};
    if (part.begin < part.end) parts.push_back(part);
  }
  return parts;
}

std::vector<Interval> subtract(const std::vector<Interval>& intervals, const std::vector<Interval>& holes) {
  std::vector<Interval> parts;
  for (Interval rest : intervals) {
    for (const Interval& hole : holes) {
      if (hole.end <= rest.begin || hole.begin >= rest.end) continue;
      if (hole.begin > rest.begin) parts.push_back({rest.begin, hole.begin});
      rest.begin = hole.end;
    }
    if (rest.begin < rest.end) parts.push_back(rest);
  }
  return parts;
}

void UnionLength::add(const std::vector<Interval>& group, bool overlaps_next, int times) {
  double first = std::numeric_limits<double>::infinity();
  for (const Interval& it : group) first = std::min(first, it.begin);
  std::erase_if(last_, [&](const Interval& it) { return it.end <= first; });
  const double before = union_length(last_);
  last_.insert(last_.end(), group.begin(), group.end());
  seconds_ += times * (union_length(last_) - before);
  if (!overlaps_next) last_.clear();
}

}  // namespace dtfm
