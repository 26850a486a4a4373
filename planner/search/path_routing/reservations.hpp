// Times at which a device or a link is reserved: one row of a reservation table.
#pragma once

#include <vector>

#include "core/base/intervals.hpp"

namespace dtfm::search {

class Reservations {
 public:
  /// Earliest start ≥ `from` of a free interval of `length` seconds, s.
  double first_fit(double from, double length) const;
  /// Reserves an interval, which must be free. An empty interval reserves nothing.
  void reserve(const Interval& interval);
  /// Reserved intervals in ascending order; adjacent ones are merged.
  const std::vector<Interval>& taken() const { return taken_; }

 private:
  std::vector<Interval>::const_iterator first_after(double date) const;

  std::vector<Interval> taken_;
};

}  // namespace dtfm::search
