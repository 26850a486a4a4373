// When the machines of a scenario come and go, on the grid of simulated time (engine/clock.hpp).
#pragma once

#include <vector>

#include "planner/core/intervals.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::sim {

class DeviceTimeline {
 public:
  /// The scenario must outlive this.
  DeviceTimeline(const Scenario& scenario, int devices);

  /// Of each device, after the events taken so far.
  const std::vector<bool>& available() const { return available_; }
  /// Of each device: the factor on what the topology says, after the events taken so far.
  const std::vector<double>& speeds() const { return speeds_; }
  /// Takes the next event if its date is at most `date`; null if there is none.
  const DeviceEvent* take(double date);
  /// The date of the next event of any kind; infinite if there is none.
  double next_date() const;
  /// The date of the next event in which a device comes or goes; infinite if there is none.
  double next_membership_change() const;
  /// The date of the last departure of `device` that was taken; expects one.
  double last_failure(int device) const;
  /// The date of the next departure of `device` from now on; infinite if there is none.
  double next_failure(int device) const;

 private:
  const Scenario& scenario_;
  std::vector<bool> available_;
  std::vector<double> speeds_;
  std::size_t next_ = 0;                         // event
  std::vector<std::vector<double>> failures_;  // of each device
  std::vector<std::size_t> failures_taken_;    // of each device
};

/// When each device is not there, ascending; the last interval may be endless.
std::vector<std::vector<Interval>> down_intervals(const Scenario& scenario, int devices);

}  // namespace dtfm::sim
