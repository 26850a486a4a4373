#include "simulator/report/intervals.hpp"

#include <algorithm>
#include <limits>

namespace dtfm {

double covered(std::vector<Interval> intervals, Interval window) {
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

double covered(std::vector<Interval> intervals) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return covered(std::move(intervals), {-infinity, infinity});
}

}  // namespace dtfm
