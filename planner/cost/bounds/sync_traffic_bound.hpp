// Lower bounds on how long the links of a device need for its share of gradient synchronization.
#pragma once

#include <vector>

#include "core/base/stop.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

/// Receivers behind one shared capacity, or a single one.
struct ReceiverSet {
  double members = 0, capacity = 0;  // bytes per second
  double inside = 0;                 // those of the members that are in the group
  friend auto operator<=>(const ReceiverSet&, const ReceiverSet&) = default;
};
/// A partition of all other devices, in the order in which they are best served.
using ReceiverSets = std::vector<ReceiverSet>;

/// Suppose that a device sends one byte to each of several receivers. A set of receivers behind a shared
/// capacity gets at most τ · capacity bytes in τ seconds, and no more bytes than it has members. The same
/// holds for what a device receives. All results are the minimum over `devices`, so they hold for every
/// device of a plan.
///
/// A set consists of the receivers whose path crosses one shared capacity: where paths cross several, the one
/// that most receivers share. That does not depend on capacities, so faster links never raise the bound.
class SyncTrafficBound {
 public:
  /// Bounds for each of `devices`, which are all devices of the topology that a plan may use. Takes
  /// O(n² log n) time for n devices. Throws WorkStopped.
  SyncTrafficBound(const IterationModel& model, const std::vector<int>& devices,
                   const StopFunction& stop = {})
      : SyncTrafficBound(model, devices, devices, stop) {}
  /// Bounds for each device of `group` (ascending), which exchanges bytes with others of `devices`.
  SyncTrafficBound(const IterationModel& model, const std::vector<int>& devices,
                   const std::vector<int>& group, const StopFunction& stop = {});

  /// Seconds per byte until a device has exchanged as many bytes with each of `partners` other devices.
  /// `partners` is less than the number of devices.
  double to_each_s(int partners) const { return to_each_s(partners, partners); }
  /// The same if at most `inside` of the partners are in the group. Infinite if there are too few devices
  /// outside it.
  double to_each_s(int partners, int inside) const;
  /// Seconds per byte until a device has sent, and received, that many bytes in total.
  double total_s() const { return total_s_; }

 private:
  /// Each different device, by direction. Empty if all devices are in the group, because then all partners
  /// are.
  std::vector<std::vector<ReceiverSets>> devices_;
  std::vector<double> to_each_s_;  // by number of partners, wherever they are
  double total_s_ = 0;
};

}  // namespace dtfm::cost
