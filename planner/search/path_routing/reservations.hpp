// When a device or a link is taken: one row of a reservation table.
#pragma once

#include <vector>

#include "planner/core/intervals.hpp"

namespace dtfm::search {

class Reservations {
 public:
  /// The earliest time from `from` on at which it is free for `length` seconds.
  double first_fit(double from, double length) const;
  /// Free until now; an interval of no length takes nothing.
  void reserve(const Interval& interval);
  /// Ascending; what touches is one.
  const std::vector<Interval>& taken() const { return taken_; }

 private:
  std::vector<Interval>::const_iterator first_after(double date) const;

  std::vector<Interval> taken_;
};

}  // namespace dtfm::search
