// Incremental evaluation of comm-cost for local search: evaluates the swap of two devices in O(replicas).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "planner/cost/comm_cost/bottleneck_matching.hpp"
#include "planner/cost/comm_cost/comm_cost.hpp"

namespace dtfm::cost {

/// A swap of two devices of different groups that has been evaluated but not applied.
struct EvaluatedSwap {
  int a = 0, b = 0;   // devices
  double energy = 0;  // s, after the swap; infinite if it reaches the limit
};

/// A segment of a pipeline that begins at `slot` of `stage` and follows the matchings.
struct StageSegment {
  int stage = 0, slot = 0;
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
  int group_of(int device) const { return group_[at(device)]; }
  std::span<const int> group(int stage) const { return {&member_[at(stage) * at(replicas_)], at(replicas_)}; }

  /// Returns a device on the critical path of the cost: for `which` = 0 the device with the longest gradient
  /// synchronization; for `which` = s in [1, stages) the first or second end of the slowest pair of hop s −
  /// 1.
  int critical_device(int which, bool second_end) const;

  /// Evaluates the swap of `a` and `b`, devices of different groups. Stops early with infinite energy as soon
  /// as the energy is certain to be ≥ `limit`.
  EvaluatedSwap evaluate_swap(int a, int b, double limit);
  void apply(const EvaluatedSwap& swap);

  /// Energy, in s, after swapping the devices of two segments of `length` consecutive stages. The segments
  /// must not share a stage. Infinite if it reaches `limit`.
  double evaluate_segment_swap(StageSegment a, StageSegment b, int length, double limit);
  void swap_segments(StageSegment a, StageSegment b, int length);

  /// Returns the placement as deployed: pipelines follow the matchings.
  Placement placement() const;

 private:
  struct Hop {
    double cost = 0;       // s, slowest pair
    double second = 0;     // s, second slowest pair
    double total = 0;      // s, sum over all pairs
    double energy = 0;     // s
    int slowest_slot = 0;  // slot of the slowest pair in the first stage
  };

  struct HopAfter {
    double cost = 0, total = 0;
  };

  /// With few replicas the best matching is recomputed after every change, because it costs little.
  bool is_small() const { return replicas_ <= 16; }
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  std::size_t position(int stage, int slot) const { return at(stage) * at(replicas_) + at(slot); }
  void enter_stage(int stage);
  void assign_slot(int stage, int slot, int device);
  void replace(int stage, int slot, int leaving, int joining);
  void swap_devices(int a, int b);
  void add_up();
  void load_hop(int stage);
  void adopt_matching(int stage);
  void join(int stage, int slot, int next_slot);
  void improve_matching(int stage);
  void update_hop(int stage, int a, int b);
  void set_all_within(int stage);
  void set_within_of(int stage, int device);
  void measure_pairs(int stage);
  void set_within(int stage, int slot, int next_slot);
  int partner(int device, int stage) const;
  double sync_energy_after(std::span<const std::pair<int, int>> swaps) const;
  HopAfter hop_after(int stage, int leaving, int joining);
  HopAfter hop_after_both(int stage, std::pair<int, int> first, std::pair<int, int> second);
  double energy_of(const HopAfter& hop) const;
  void follow_segments(StageSegment a, StageSegment b, int length);
  std::array<int, 4> segment_ends(int a, int b, int length) const;
  double pair_of(int device) const;
  HopAfter hop_with_pair(int stage, int slot, double pair) const;
  HopAfter hop_after_segment_swap(int stage, int a, int b, int length);
  void update_hop_after_segment_swap(int stage, bool is_between);
  double max_savings(int stage) const;
  bool can_keep_cost(int stage, int slot, int joining, bool is_first);
  std::array<int, 4> touched_hops(int a, int b) const;
  void check() const;

  const CommCostModel* model_;
  int stages_, replicas_;
  double guidance_;
  double fastest_hop_;             // s, least hop cost of any pair in the network
  std::vector<int> member_;        // device at position(stage, slot)
  std::vector<int> group_, slot_;  // indexed by device
  /// Slot of the partner in the next and in the previous stage, at position(stage, slot).
  std::vector<int> next_, previous_;
  std::vector<double> pair_;  // s, cost of the pair over the next hop, at position(stage, slot)
  std::size_t words_;         // number of 64-bit words in a bit set of slots
  /// Bit sets at position(stage, slot) · words_: partners over the next hop that are no slower than its cost.
  std::vector<std::uint64_t> within_;
  std::vector<std::uint64_t> unvisited_;      // scratch space of can_keep_cost
  std::vector<int> queue_;                    // scratch space of can_keep_cost
  std::vector<std::pair<int, int>> swapped_;  // scratch space of follow_segments
  std::vector<double> device_sync_;           // s, by device: sum of `sync` over its group
  std::vector<double> group_sync_;            // s, by stage: maximum of device_sync_
  std::vector<double> group_total_;           // s, by stage: sum of device_sync_
  std::vector<Hop> hop_;                      // stages − 1 hops
  double cost_ = 0, energy_ = 0, sync_energy_ = 0;
  BottleneckMatcher matcher_;
};

}  // namespace dtfm::cost
