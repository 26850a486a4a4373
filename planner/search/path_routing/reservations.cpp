#include "planner/search/path_routing/reservations.hpp"

#include <algorithm>

#include "core/base/error.hpp"

namespace dtfm::search {

/// The first reservation that ends after `date`.
std::vector<Interval>::const_iterator Reservations::first_after(double date) const {
  return std::upper_bound(taken_.begin(), taken_.end(), date,
                          [](double value, const Interval& it) { return value < it.end; });
}

double Reservations::first_fit(double from, double length) const {
  for (auto it = first_after(from); it != taken_.end() && it->begin < from + length; ++it) from = it->end;
  return from;
}

void Reservations::reserve(const Interval& interval) {
  if (interval.end <= interval.begin) return;
  auto after = taken_.begin() + (first_after(interval.begin) - taken_.cbegin());
  DTFM_ASSERT(after == taken_.end() || interval.end <= after->begin);
  const bool touches_before = after != taken_.begin() && (after - 1)->end == interval.begin;
  const bool touches_after = after != taken_.end() && after->begin == interval.end;
  if (touches_before && touches_after) {
    (after - 1)->end = after->end;
    taken_.erase(after);
  } else if (touches_before) {
    (after - 1)->end = interval.end;
  } else if (touches_after) {
    after->begin = interval.begin;
  } else {
    taken_.insert(after, interval);
  }
}

}  // namespace dtfm::search
