// What the devices do with their time.
#pragma once

#include <vector>

#include "simulator/run/observer.hpp"

namespace dtfm {

/// Seconds over all stretches seen so far.
struct DeviceTimes {
  double compute_s = 0;
  /// Of the time in which the device computes nothing. Before a computation: while a message that it needs is
  /// on its way, or ready and queued behind others. After the last computation of a stretch: while any
  /// message from or to the device is. What is left of a run, neither computing nor this, the device waits
  /// for others: for their computations, for the slowest at the end of an iteration, for the schedule.
  double waiting_network_s = 0;
  double sending_s = 0, receiving_s = 0;  // while at least one message is, from its turn to its arrival
};

class DeviceUse : public RunObserver {
 public:
  explicit DeviceUse(int devices) : times_(static_cast<std::size_t>(devices)) {}
  void see(const Stretch& stretch) override;
  /// Of each device.
  const std::vector<DeviceTimes>& times() const { return times_; }

 private:
  std::vector<DeviceTimes> times_;
};

}  // namespace dtfm
