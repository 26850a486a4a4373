// When the devices of a scenario leave, join and change their speed, rounded to the grid of simulated time
// (engine/clock.hpp).
#pragma once

#include <vector>

#include "core/base/intervals.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::sim {

class DeviceTimeline {
 public:
  /// The scenario must outlive this.
  DeviceTimeline(const Scenario& scenario, int devices);

  /// Whether each device is available after the events taken so far.
  const std::vector<bool>& available() const { return available_; }
  /// For each device, the factor on its speed in the topology after the events taken so far.
  const std::vector<double>& speeds() const { return speeds_; }
  /// Takes the next event if it happens at or before `date`; returns null otherwise.
  const DeviceEvent* take(double date);
  /// The time (s) of the next event of any kind; infinite if there is none.
  double next_date() const;
  /// The time (s) at which the next device leaves or joins; infinite if there is none.
  double next_membership_change() const;
  /// The time (s) at which `device` last left according to the events taken; it must have left.
  double last_failure(int device) const;
  /// The time (s) at which `device` leaves next; infinite if it does not.
  double next_failure(int device) const;
  /// The time (s) from which that is known: the warning before it, or when `device` last joined, or the
  /// start; infinite if `device` does not leave.
  double next_warning(int device) const;

 private:
  struct Failure {
    double date, known_from;  // s
  };
  const Failure* find_next_failure(int device) const;

  const Scenario& scenario_;
  std::vector<bool> available_;
  std::vector<double> speeds_;
  std::size_t next_ = 0;                        // index of the next event
  std::vector<std::vector<Failure>> failures_;  // [device]
  std::vector<std::size_t> failures_taken_;     // [device]
};

/// For each device, the intervals in which it is unavailable, ascending. The last one may be infinite.
std::vector<std::vector<Interval>> down_intervals(const Scenario& scenario, int devices);

}  // namespace dtfm::sim
