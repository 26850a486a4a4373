// The cost of a placement that is changed again and again: what a swap of two devices would cost, in
// O(replicas).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "planner/cost/comm_cost/bottleneck_matching.hpp"
#include "planner/cost/comm_cost/comm_cost.hpp"

namespace dtfm::cost {

/// A swap of two devices of different groups, priced but not made.
struct EvaluatedSwap {
  int a = 0, b = 0;   // devices
  double energy = 0;  // s, after the swap; infinite when it was found to reach the limit
};

/// A part of a pipeline: from `slot` of `stage` on, along the matchings.
struct StageSegment {
  int stage = 0, slot = 0;
};

/// Groups in the order of the stages, and a perfect matching for each hop. The order stays as given; a
/// matching is renewed when a swap touches its slowest pair or would make a slower one. So `cost` is that of
/// a real deployment, and never below the COMM-COST of the partition.
///
/// The cost is made of maxima and does not notice most swaps. `energy` does: it is the cost plus `guidance`
/// times the cost that would result if every maximum were a mean.
class CommCostState {
 public:
  CommCostState(const CommCostModel& model, const Placement& placement, double guidance);

  double cost() const { return cost_; }
  double energy() const { return energy_; }
  int group_of(int device) const { return group_[at(device)]; }
  std::span<const int> group(int stage) const { return {&member_[at(stage) * at(replicas_)], at(replicas_)}; }

  /// A device whose swap may lower the cost: for `which` = 0 the one that exchanges longest, for `which` = s
  /// in [1, stages) the first or second end of the slowest pair of hop s − 1.
  int critical_device(int which, bool second_end) const;

  /// Prices the swap of `a` and `b`, devices of different groups; gives up when the energy is sure to be ≥
  /// `limit`.
  EvaluatedSwap evaluate_swap(int a, int b, double limit);
  void apply(const EvaluatedSwap& swap);

  /// The energy, in s, once the devices of two runs of `length` consecutive stages, which share no stage,
  /// have changed places; infinite when it was found to reach `limit`.
  double evaluate_segment_swap(StageSegment a, StageSegment b, int length, double limit);
  void swap_segments(StageSegment a, StageSegment b, int length);

  /// The placement as deployed: pipelines follow the matchings.
  Placement placement() const;

 private:
  struct Hop {
    double cost = 0, second = 0, total = 0, energy = 0;  // of the slowest pair, the next one, all pairs
    int slowest_slot = 0;                                // of the first stage
  };

  struct HopAfter {
    double cost = 0, total = 0;
  };

  /// So few replicas that the best matching is looked for after every change: it costs little.
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
  double fastest_hop_;             // of the whole network: no pair costs less
  std::vector<int> member_;        // at position(stage, slot): the device
  std::vector<int> group_, slot_;  // of each device
  std::vector<int> next_,
      previous_;              // at position(stage, slot): slot of the partner in the next, previous stage
  std::vector<double> pair_;  // at position(stage, slot): what the pair of that slot over the next hop costs
  std::size_t words_;         // 64-bit words of a set of slots
  std::vector<std::uint64_t>
      within_;  // at position(stage, slot) · words_: partners no slower than the hop is now
  std::vector<std::uint64_t> unvisited_;  // scratch of can_keep_cost
  std::vector<int> queue_;
  std::vector<std::pair<int, int>> swapped_;  // scratch of follow_segments
  std::vector<double> device_sync_;                // of each device: sum of `sync` over its group
  std::vector<double> group_sync_;              // of each stage: max of exchange_
  std::vector<double> group_total_;             // of each stage: sum of exchange_
  std::vector<Hop> hop_;                        // stages − 1
  double cost_ = 0, energy_ = 0, sync_energy_ = 0;
  BottleneckMatcher matcher_;
};

}  // namespace dtfm::cost
