// How the devices spend their time: computing, waiting, being unavailable, sending and receiving.
#pragma once

#include <utility>
#include <vector>

#include "core/base/intervals.hpp"
#include "simulator/observation/observer.hpp"

namespace dtfm::sim {

/// Sums in seconds over all intervals observed so far.
struct DeviceTimes {
  double compute_s = 0;
  /// Idle time that counts as waiting for the network. Before a computation: while a message that it depends
  /// on is in transit, or ready and queued behind others. After the last computation of an interval: while
  /// any message from or to the device is. Excludes the time in which the device is unavailable.
  double waiting_network_s = 0;
  /// The rest of the time: waiting for computations of other devices, for the slowest device at the end of an
  /// iteration, or because of the schedule.
  double waiting_others_s = 0;
  double down_s = 0;
  /// Time in which at least one message is being sent or received, from its start to its arrival.
  double sending_s = 0, receiving_s = 0;
};

class DeviceUsage : public RunObserver {
 public:
  /// `down`: for each device the intervals in which it is unavailable, ascending.
  explicit DeviceUsage(std::vector<std::vector<Interval>> down)
      : down_(std::move(down)),
        times_(down_.size()),
        sending_(down_.size()),
        receiving_(down_.size()),
        observed_until_(down_.size()) {}
  void on_interval(const RunInterval& run_interval) override;
  bool counts_repetitions() const override { return true; }
  /// The times of each device in a run of `length_s` seconds. The first four add up to `length_s`.
  std::vector<DeviceTimes> times(double length_s) const;

 private:
  std::vector<std::vector<Interval>> down_;
  std::vector<DeviceTimes> times_;
  std::vector<UnionLength> sending_, receiving_;  // [device]
  std::vector<double> observed_until_;            // [device], s
};

}  // namespace dtfm::sim
