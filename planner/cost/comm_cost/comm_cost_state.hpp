// Incremental evaluation of comm-cost for local search: evaluates the swap of two devices in O(replicas).
#pragma once

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "planner/cost/comm_cost/bottleneck_matching.hpp"
#include "planner/cost/comm_cost/comm_cost.hpp"
#include "planner/cost/comm_cost/group_syncs.hpp"
#include "planner/cost/comm_cost/hop_matching.hpp"

namespace dtfm::cost {

/// A swap of two devices of different groups that has been evaluated but not applied.
struct EvaluatedSwap {
  int a = 0, b = 0;   // devices
  double energy = 0;  // s, after the swap; infinite if it reaches the limit
};

/// Groups in the order of the stages, and a perfect matching for each hop. The order of the stages never
/// changes; a matching is recomputed when a swap touches its slowest pair or would create a slower one. Hence
/// `cost` is the cost of a real deployment, and never below the COMM-COST of the partition.
///
/// The cost consists of maxima, which most swaps leave unchanged, so it gives the search little guidance.
/// `energy` responds to every swap: it is the cost plus `guidance` times the cost that would result if every
/// maximum were replaced by a mean.
class CommCostState {
 public:
  CommCostState(const CommCostModel& model, const Placement& placement, double guidance);

  double cost() const { return cost_; }
  double energy() const { return energy_; }
  int group_of(int device) const { return slots_.stage_of(device); }
  std::span<const int> group(int stage) const { return slots_.group(stage); }

  /// Returns a device on the critical path of the cost: for `which` = 0 the device with the longest gradient
  /// synchronization; for `which` = s in [1, stages) the first or second end of the slowest pair of hop s −
  /// 1.
  int critical_device(int which, bool second_end) const;

  /// Evaluates the swap of `a` and `b`, devices of different groups. Stops early with infinite energy as soon
  /// as the energy is certain to be ≥ `limit`.
  EvaluatedSwap evaluate_swap(int a, int b, double limit);
  void apply(const EvaluatedSwap& swap);

  /// Energy, in s, after swapping the devices of two segments of `length` consecutive stages, which begin at
  /// these slots and follow the matchings. They must not share a stage. Infinite if it reaches `limit`.
  double evaluate_segment_swap(StageSlot a, StageSlot b, int length, double limit);
  void swap_segments(StageSlot a, StageSlot b, int length);

  /// Returns the placement as deployed: pipelines follow the matchings.
  Placement placement() const;

 private:
  /// With few replicas the best matching is recomputed after every change, because it costs little.
  bool is_small() const { return slots_.replicas <= 16; }
  HopGroups groups_of(int hop) const { return {*model_, slots_.group(hop), slots_.group(hop + 1)}; }
  double energy_of(const HopCost& hop) const { return hop.slowest + guidance_ * hop.total / slots_.replicas; }
  double energy_of(const SyncTotals& syncs) const;
  double max_savings(int hop) const;
  void add_up();
  std::array<int, 4> touched_hops(int a, int b) const;
  HopCost after_swap(int hop, int a, int b);
  void update_hop(int hop, int a, int b);
  void follow_segments(StageSlot a, StageSlot b, int length);
  std::array<int, 4> segment_ends(int a, int b, int length) const;
  HopCost after_segment_swap(int hop, int a, int b, int length);
  void update_hop_after_segment_swap(int hop, bool is_between);
  void update_within(int hop, int device);

  const CommCostModel* model_;
  double guidance_;
  double fastest_hop_;  // s, least hop cost of any pair in the network
  DeviceSlots slots_;
  GroupSyncs syncs_;
  std::vector<HopMatching> hops_;  // stages − 1
  double cost_ = 0, energy_ = 0, sync_energy_ = 0;
  BottleneckMatcher matcher_;
  PathSearch search_;                         // scratch space
  std::vector<std::pair<int, int>> swapped_;  // scratch space: devices of segments that are swapped
};

}  // namespace dtfm::cost
