#include "planner/cost/comm_cost/comm_cost_state.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/error.hpp"
#include "core/base/infinity.hpp"

namespace dtfm::cost {
namespace {

double fastest_hop(const CommCostModel& model) {
  double fastest = infinity;
  for (int device = 0; device < model.devices(); ++device)
    for (int peer = 0; peer < device; ++peer) fastest = std::min(fastest, model.hop(peer, device));
  return fastest;
}

}  // namespace

CommCostState::CommCostState(const CommCostModel& model, const Placement& placement, double guidance)
    : model_(&model),
      guidance_(guidance),
      fastest_hop_(fastest_hop(model)),
      slots_(placement),
      syncs_(model, slots_),
      hops_(at(slots_.stages - 1), HopMatching(slots_.replicas)),
      matcher_(slots_.replicas) {
  for (int hop = 0; hop + 1 < slots_.stages; ++hop) {
    improve(hops_[at(hop)], groups_of(hop), matcher_, /*from_scratch=*/true);
    set_all_within(hops_[at(hop)], groups_of(hop));
  }
  add_up();
}

double CommCostState::energy_of(const SyncTotals& syncs) const {
  return syncs.slowest + guidance_ * syncs.total / (slots_.stages * slots_.replicas);
}

void CommCostState::add_up() {
  const SyncTotals syncs = syncs_.totals();
  sync_energy_ = energy_of(syncs);
  cost_ = syncs.slowest;
  energy_ = sync_energy_;
  for (const HopMatching& hop : hops_) {
    cost_ += hop.cost.slowest;
    energy_ += energy_of(hop.cost);
  }
#ifdef DTFM_CHECK_MOVES
  const double full = comm_cost(*model_, placement()).total();
  DTFM_ASSERT(std::abs(full - cost()) <= 1e-9 * full);
#endif
}

int CommCostState::critical_device(int which, bool second_end) const {
  if (which > 0) {
    const HopMatching& hop = hops_[at(which - 1)];
    return second_end ? slots_.device({which, hop.next[at(hop.slowest_slot)]})
                      : slots_.device({which - 1, hop.slowest_slot});
  }
  const auto slowest = std::max_element(syncs_.slowest.begin(), syncs_.slowest.end());
  const auto members = group(static_cast<int>(slowest - syncs_.slowest.begin()));
  return *std::max_element(members.begin(), members.end(), [this](int x, int y) {
    return syncs_.of_device[at(x)] < syncs_.of_device[at(y)];
  });
}

/// Upper bound on the energy that a hop can save.
double CommCostState::max_savings(int hop) const {
  return energy_of(hops_[at(hop)].cost) - (1 + guidance_) * fastest_hop_;
}

EvaluatedSwap CommCostState::evaluate_swap(int a, int b, double limit) {
  EvaluatedSwap swap{a, b, infinity};
  // Hops not evaluated yet may still reduce the energy by up to `savings`, so only the rest may be compared
  // with `limit`.
  double savings = 0;
  const auto touched = touched_hops(a, b);
  for (const int hop : touched)
    if (hop >= 0) savings += max_savings(hop);
  double total =
      energy_ - sync_energy_ + energy_of(totals_after(syncs_, *model_, slots_, std::array{std::pair{a, b}}));
  if (total - savings >= limit) return swap;
  for (const int hop : touched) {
    if (hop < 0) continue;
    savings -= max_savings(hop);
    total += energy_of(after_swap(hop, a, b)) - energy_of(hops_[at(hop)].cost);
    if (total - savings >= limit) return swap;
  }
  swap.energy = total;
  return swap;
}

/// The hops changed by a swap of `a` and `b`, each given by its first stage; −1 fills the array if there are
/// fewer than four.
std::array<int, 4> CommCostState::touched_hops(int a, int b) const {
  std::array<int, 4> touched{group_of(a) - 1, group_of(a), group_of(b) - 1, group_of(b)};
  for (std::size_t i = 0; i < touched.size(); ++i) {
    const auto here = touched.begin() + static_cast<std::ptrdiff_t>(i);
    const bool exists = touched[i] >= 0 && touched[i] + 1 < slots_.stages;
    if (!exists || std::find(touched.begin(), here, touched[i]) != here) touched[i] = -1;
  }
  return touched;
}

/// Evaluates a hop if `a` and `b` are swapped, one or both of which are in its stages.
HopCost CommCostState::after_swap(int hop, int a, int b) {
  const bool has_a = group_of(a) == hop || group_of(a) == hop + 1;
  const bool has_b = group_of(b) == hop || group_of(b) == hop + 1;
  if (has_a && has_b) {
    if (group_of(a) != hop) std::swap(a, b);
    return after_replacing_both(hops_[at(hop)], groups_of(hop), {slots_.slot_of(a), b},
                                {slots_.slot_of(b), a}, matcher_);
  }
  if (!has_a) std::swap(a, b);
  return after_replacing(hops_[at(hop)], groups_of(hop), slots_.slot_of(a), b, group_of(a) == hop, search_);
}

void CommCostState::apply(const EvaluatedSwap& swap) {
  swap_devices(*model_, {swap.a, swap.b}, slots_, syncs_);
  for (const int hop : touched_hops(swap.a, swap.b))
    if (hop >= 0) update_hop(hop, swap.a, swap.b);
  add_up();
}

/// Updates a hop after the swap of `a` and `b` has been applied. If the pairs they are now in are no slower
/// than the hop was, and its slowest pair is not affected, the matching and the cost of the hop remain valid.
/// Otherwise the best matching is computed, as it is wherever the evaluation of the swap assumed it: if both
/// ends of the hop changed, or if there are few replicas.
void CommCostState::update_hop(int number, int a, int b) {
  HopMatching& hop = hops_[at(number)];
  const HopGroups groups = groups_of(number);
  bool as_fast = true;
  int ends = 0;
  for (const int device : {a, b}) {
    if (group_of(device) != number && group_of(device) != number + 1) continue;
    ++ends;
    const int own = slots_.slot_of(device), slot = group_of(device) == number ? own : hop.previous[at(own)];
    as_fast &= slot != hop.slowest_slot && groups.pair_s(slot, hop.next[at(slot)]) <= hop.cost.slowest;
  }
  if (!as_fast || ends == 2 || is_small()) {
    improve(hop, groups, matcher_);
    set_all_within(hop, groups);
    return;
  }
  measure_pairs(hop, groups);
  for (const int device : {a, b}) update_within(number, device);
}

/// Fills `swapped_` with the pairs of devices that the move swaps.
void CommCostState::follow_segments(StageSlot a, StageSlot b, int length) {
  swapped_.clear();
  for (;;) {
    swapped_.emplace_back(slots_.device(a), slots_.device(b));
    if (--length == 0) return;
    for (StageSlot* it : {&a, &b}) it->slot = hops_[at(it->stage++)].next[at(it->slot)];
  }
}

double CommCostState::evaluate_segment_swap(StageSlot a, StageSlot b, int length, double limit) {
  follow_segments(a, b, length);
  double total = energy_ - sync_energy_ + energy_of(totals_after(syncs_, *model_, slots_, swapped_));
  // Pairs inside the segments stay together.
  for (int i = 0; i + 1 < length; ++i) {
    const HopMatching &of_a = hops_[at(a.stage + i)], &of_b = hops_[at(b.stage + i)];
    const int slot_a = slots_.slot_of(swapped_[at(i)].first), slot_b = slots_.slot_of(swapped_[at(i)].second);
    total += energy_of(after_changing_pair(of_a, slot_a, of_b.pair_s[at(slot_b)])) - energy_of(of_a.cost);
    total += energy_of(after_changing_pair(of_b, slot_b, of_a.pair_s[at(slot_a)])) - energy_of(of_b.cost);
  }
  // At the ends of the segments the pairs change.
  const auto ends = segment_ends(a.stage, b.stage, length);
  double savings = 0;
  for (const int hop : ends)
    if (hop >= 0) savings += max_savings(hop);
  for (const int hop : ends) {
    if (total - savings >= limit) return infinity;
    if (hop < 0) continue;
    savings -= max_savings(hop);
    total += energy_of(after_segment_swap(hop, a.stage, b.stage, length)) - energy_of(hops_[at(hop)].cost);
  }
  return total < limit ? total : infinity;
}

/// The hops before and after each segment; −1 where there is none. A hop between two adjacent segments
/// appears only once.
std::array<int, 4> CommCostState::segment_ends(int a, int b, int length) const {
  std::array<int, 4> ends{a - 1, a + length - 1, b - 1, b + length - 1};
  if (ends[0] == ends[3]) ends[3] = -1;
  if (ends[1] == ends[2]) ends[2] = -1;
  for (int& hop : ends)
    if (hop + 1 >= slots_.stages) hop = -1;
  return ends;
}

/// Evaluates a hop at the end of one segment or between the two: of the devices in `swapped_`, it touches
/// those of the first stages of segments that begin behind it, and of the last ones of those that end before.
HopCost CommCostState::after_segment_swap(int hop, int a, int b, int length) {
  const auto &first = swapped_.front(), &last = swapped_.back();
  const bool before_a = hop == a - 1, after_a = hop == a + length - 1;
  const bool before_b = hop == b - 1, after_b = hop == b + length - 1;
  const HopMatching& it = hops_[at(hop)];
  const auto replace = [&](int leaving, int joining) {
    return after_replacing(it, groups_of(hop), slots_.slot_of(leaving), joining, group_of(leaving) == hop,
                           search_);
  };
  if (before_a && !after_b) return replace(first.first, first.second);
  if (before_b && !after_a) return replace(first.second, first.first);
  if (after_a && !before_b) return replace(last.first, last.second);
  if (after_b && !before_a) return replace(last.second, last.first);
  const auto [leaves_first, joins_first] = after_a ? last : std::pair{last.second, last.first};
  const auto [leaves_second, joins_second] = after_a ? std::pair{first.second, first.first} : first;
  return after_replacing_both(it, groups_of(hop), {slots_.slot_of(leaves_first), joins_first},
                              {slots_.slot_of(leaves_second), joins_second}, matcher_);
}

void CommCostState::swap_segments(StageSlot a, StageSlot b, int length) {
  follow_segments(a, b, length);
  for (const auto& devices : swapped_) swap_devices(*model_, devices, slots_, syncs_);
  for (int hop = 0; hop + 1 < slots_.stages; ++hop) {
    const bool of_a = hop >= a.stage - 1 && hop < a.stage + length;
    const bool of_b = hop >= b.stage - 1 && hop < b.stage + length;
    const bool is_between =
        hop + 1 == std::max(a.stage, b.stage) && hop == std::min(a.stage, b.stage) + length - 1;
    if (of_a || of_b) update_hop_after_segment_swap(hop, is_between);
  }
  add_up();
}

/// The evaluation assumed the best matching for a hop between the two segments, so it must be computed there.
void CommCostState::update_hop_after_segment_swap(int number, bool is_between) {
  HopMatching& hop = hops_[at(number)];
  const HopGroups groups = groups_of(number);
  const double before = hop.cost.slowest;
  measure_pairs(hop, groups);
  if (is_between || is_small() || hop.cost.slowest > before) improve(hop, groups, matcher_);
  if (hop.cost.slowest != before) return set_all_within(hop, groups);
  for (const auto& [one, other] : swapped_)
    for (const int device : {one, other}) update_within(number, device);
}

/// Updates what depends on `device`, new in its slot, if that is in a stage of the hop.
void CommCostState::update_within(int hop, int device) {
  const bool is_first = group_of(device) == hop;
  if (is_first || group_of(device) == hop + 1)
    set_within_of(hops_[at(hop)], groups_of(hop), slots_.slot_of(device), is_first);
}

Placement CommCostState::placement() const {
  Placement result(slots_.stages, slots_.replicas);
  for (int replica = 0; replica < slots_.replicas; ++replica) {
    int slot = replica;
    for (int stage = 0; stage < slots_.stages; ++stage) {
      result.at(stage, replica) = slots_.device({stage, slot});
      if (stage + 1 < slots_.stages) slot = hops_[at(stage)].next[at(slot)];
    }
  }
  return result;
}

}  // namespace dtfm::cost
