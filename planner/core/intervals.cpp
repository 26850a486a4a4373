#include "planner/core/intervals.hpp"

#include <algorithm>
#include <limits>

namespace dtfm {

std::vector<Interval> unite(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> result;
  for (const Interval& it : intervals) {
    if (it.end <= it.begin) continue;
    if (!result.empty() && it.begin <= result.back().end)
      result.back().end = std::max(result.back().end, it.end);
    else
      result.push_back(it);
  }
  return result;
}

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

void UnionLength::add(std::vector<Interval> group, bool overlaps_next) {
  group = unite(std::move(group));
  const double first = group.empty() ? 0 : group.front().begin;
  std::erase_if(last_, [&](const Interval& it) { return it.end <= first; });  // mostly all
  for (const Interval& it : subtract(group, last_)) seconds_ += it.end - it.begin;
  last_ = overlaps_next ? std::move(group) : std::vector<Interval>();
}

}  // namespace dtfm
