// What the devices do with their time.
#pragma once

#include <utility>
#include <vector>

#include "planner/core/intervals.hpp"
#include "simulator/observation/observer.hpp"

namespace dtfm::sim {

/// Seconds over all stretches seen so far.
struct DeviceTimes {
  double compute_s = 0;
  /// Of the time in which the device computes nothing. Before a computation: while a message that it needs is
  /// on its way, or ready and queued behind others. After the last computation of a stretch: while any
  /// message from or to the device is. A device that is not there does not wait.
  double waiting_network_s = 0;
  /// Of the time that is in none of the others: for their computations, for the slowest at the end of an
  /// iteration, for the schedule.
  double waiting_others_s = 0;
  double down_s = 0;
  double sending_s = 0, receiving_s = 0;  // while at least one message is, from its turn to its arrival
};

class DeviceUsage : public RunObserver {
 public:
  /// `down`: when each device is not there, ascending.
  explicit DeviceUsage(std::vector<std::vector<Interval>> down)
      : down_(std::move(down)), times_(down_.size()) {}
  void on_interval(const RunInterval& run_interval) override;
  /// Of each device, of a run of `length_s` seconds. The first four add up to it.
  std::vector<DeviceTimes> times(double length_s) const;

 private:
  std::vector<std::vector<Interval>> down_;
  std::vector<DeviceTimes> times_;
  double observed_until_ = 0;
};

}  // namespace dtfm::sim
