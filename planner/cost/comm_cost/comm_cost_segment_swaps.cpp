// CommCostState's move that swaps two segments of consecutive stages between pipelines.
#include <algorithm>
#include <limits>

#include "core/base/index.hpp"
#include "planner/cost/comm_cost/comm_cost_state.hpp"

namespace dtfm::cost {

/// Fills `swapped_` with the pairs of devices that the move swaps.
void CommCostState::follow_segments(StageSegment a, StageSegment b, int length) {
  swapped_.clear();
  for (int i = 0; i < length; ++i) {
    swapped_.emplace_back(member_[position(a.stage + i, a.slot)], member_[position(b.stage + i, b.slot)]);
    if (i + 1 == length) break;
    a.slot = next_[position(a.stage + i, a.slot)];
    b.slot = next_[position(b.stage + i, b.slot)];
  }
}

double CommCostState::evaluate_segment_swap(StageSegment a, StageSegment b, int length, double limit) {
  constexpr double refused = std::numeric_limits<double>::infinity();
  follow_segments(a, b, length);
  double total = energy_ - sync_energy_ + sync_energy_after(swapped_);
  // Pairs inside the segments stay together.
  for (int i = 0; i + 1 < length; ++i) {
    const auto [one, other] = swapped_[at(i)];
    total +=
        energy_of(hop_with_pair(a.stage + i, slot_[at(one)], pair_of(other))) - hop_[at(a.stage + i)].energy;
    total +=
        energy_of(hop_with_pair(b.stage + i, slot_[at(other)], pair_of(one))) - hop_[at(b.stage + i)].energy;
  }
  // At the ends of the segments the pairs change.
  const auto ends = segment_ends(a.stage, b.stage, length);
  double savings = 0;
  for (const int stage : ends)
    if (stage >= 0) savings += max_savings(stage);
  for (const int stage : ends) {
    if (total - savings >= limit) return refused;
    if (stage < 0) continue;
    savings -= max_savings(stage);
    total += energy_of(hop_after_segment_swap(stage, a.stage, b.stage, length)) - hop_[at(stage)].energy;
  }
  return total < limit ? total : refused;
}

/// The hops before and after each segment; −1 where there is none. A hop between two adjacent segments
/// appears only once.
std::array<int, 4> CommCostState::segment_ends(int a, int b, int length) const {
  std::array<int, 4> ends{a - 1, a + length - 1, b - 1, b + length - 1};
  if (ends[0] == ends[3]) ends[3] = -1;
  if (ends[1] == ends[2]) ends[2] = -1;
  for (int& stage : ends)
    if (stage + 1 >= stages_) stage = -1;
  return ends;
}

/// Cost of the pair of `device` over the next hop, s.
double CommCostState::pair_of(int device) const {
  return pair_[position(group_of(device), slot_[at(device)])];
}

/// Evaluates hop `stage` with `pair` as the cost of the pair of `slot`.
CommCostState::HopAfter CommCostState::hop_with_pair(int stage, int slot, double pair) const {
  const Hop& hop = hop_[at(stage)];
  const double others = slot == hop.slowest_slot ? hop.second : hop.cost;
  return {std::max(others, pair), hop.total - pair_[position(stage, slot)] + pair};
}

/// Evaluates hop `stage`, which lies at the end of one segment or between the two.
CommCostState::HopAfter CommCostState::hop_after_segment_swap(int stage, int a, int b, int length) {
  const auto &first = swapped_.front(), &last = swapped_.back();
  const bool before_a = stage == a - 1, after_a = stage == a + length - 1;
  const bool before_b = stage == b - 1, after_b = stage == b + length - 1;
  if (before_a && !after_b) return hop_after(stage, first.first, first.second);
  if (before_b && !after_a) return hop_after(stage, first.second, first.first);
  if (after_a && !before_b) return hop_after(stage, last.first, last.second);
  if (after_b && !before_a) return hop_after(stage, last.second, last.first);
  const auto [leaves_first, joins_first] = after_a ? last : std::pair{last.second, last.first};
  const auto [leaves_second, joins_second] = after_a ? std::pair{first.second, first.first} : first;
  return hop_after_both(stage, {leaves_first, joins_first}, {leaves_second, joins_second});
}

void CommCostState::swap_segments(StageSegment a, StageSegment b, int length) {
  follow_segments(a, b, length);
  for (const auto& [one, other] : swapped_) swap_devices(one, other);
  for (int stage = 0; stage + 1 < stages_; ++stage) {
    const bool of_a = stage >= a.stage - 1 && stage < a.stage + length;
    const bool of_b = stage >= b.stage - 1 && stage < b.stage + length;
    const bool is_between =
        stage + 1 == std::max(a.stage, b.stage) && stage == std::min(a.stage, b.stage) + length - 1;
    if (of_a || of_b) update_hop_after_segment_swap(stage, is_between);
  }
  add_up();
#ifdef DTFM_CHECK_MOVES
  check();
#endif
}

/// The evaluation assumed the best matching for a hop between the two segments, so it must be computed there.
void CommCostState::update_hop_after_segment_swap(int stage, bool is_between) {
  const double before = hop_[at(stage)].cost;
  measure_pairs(stage);
  if (is_between || is_small() || hop_[at(stage)].cost > before) improve_matching(stage);
  if (hop_[at(stage)].cost != before) return set_all_within(stage);
  for (const auto& [one, other] : swapped_) {
    set_within_of(stage, one);
    set_within_of(stage, other);
  }
}

}  // namespace dtfm::cost
