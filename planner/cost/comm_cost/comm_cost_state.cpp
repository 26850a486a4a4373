#include "planner/cost/comm_cost/comm_cost_state.hpp"

#include <algorithm>
#include <bit>
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
      stages_(placement.stages()),
      replicas_(placement.replicas()),
      guidance_(guidance),
      fastest_hop_(fastest_hop(model)),
      member_(placement.devices()),
      group_(member_.size()),
      slot_(member_.size()),
      next_(member_.size()),
      previous_(member_.size()),
      pair_(member_.size()),
      words_((at(replicas_) + 63) / 64),
      within_(member_.size() * words_),
      unvisited_(words_),
      device_sync_(member_.size()),
      group_sync_(at(stages_)),
      group_total_(at(stages_)),
      hop_(at(stages_ - 1)),
      matcher_(replicas_) {
  for (int stage = 0; stage < stages_; ++stage) enter_stage(stage);
  for (int stage = 0; stage + 1 < stages_; ++stage) {
    load_hop(stage);
    matcher_.solve();
    adopt_matching(stage);
    set_all_within(stage);
  }
  add_up();
}

void CommCostState::enter_stage(int stage) {
  double slowest = 0, total = 0;
  for (int slot = 0; slot < replicas_; ++slot) {
    const int device = member_[position(stage, slot)];
    group_[at(device)] = stage;
    slot_[at(device)] = slot;
    const double* sync = &model_->sync(0, device);
    double sum = 0;
    for (const int peer : group(stage)) sum += sync[peer];
    device_sync_[at(device)] = sum;
    slowest = std::max(slowest, sum);
    total += sum;
  }
  group_sync_[at(stage)] = slowest;
  group_total_[at(stage)] = total;
}

void CommCostState::assign_slot(int stage, int slot, int device) {
  member_[position(stage, slot)] = device;
  group_[at(device)] = stage;
  slot_[at(device)] = slot;
}

/// Replaces `leaving` by `joining` in a slot of `stage`, in O(replicas) rather than by summing over all
/// pairs.
void CommCostState::replace(int stage, int slot, int leaving, int joining) {
  const double* lost = &model_->sync(0, leaving);
  const double* gained = &model_->sync(0, joining);
  assign_slot(stage, slot, joining);
  double joined = 0, slowest = 0, total = 0;
  for (const int peer : group(stage)) {
    joined += gained[peer];
    if (peer == joining) continue;
    device_sync_[at(peer)] += gained[peer] - lost[peer];
    slowest = std::max(slowest, device_sync_[at(peer)]);
    total += device_sync_[at(peer)];
  }
  device_sync_[at(joining)] = joined;
  group_sync_[at(stage)] = std::max(slowest, joined);
  group_total_[at(stage)] = total + joined;
}

void CommCostState::swap_devices(int a, int b) {
  const int stage_a = group_of(a), stage_b = group_of(b);
  const int slot_a = slot_[at(a)], slot_b = slot_[at(b)];
  replace(stage_a, slot_a, a, b);
  replace(stage_b, slot_b, b, a);
}

void CommCostState::add_up() {
  double slowest = 0, total = 0;
  for (int stage = 0; stage < stages_; ++stage) {
    slowest = std::max(slowest, group_sync_[at(stage)]);
    total += group_total_[at(stage)];
  }
  sync_energy_ = slowest + guidance_ * total / (stages_ * replicas_);
  cost_ = slowest;
  energy_ = sync_energy_;
  for (const Hop& hop : hop_) {
    cost_ += hop.cost;
    energy_ += hop.energy;
  }
}

/// Loads hop `stage` as a matching problem: slots of the first stage × slots of the second.
void CommCostState::load_hop(int stage) {
  for (int slot = 0; slot < replicas_; ++slot) {
    matcher_.set_row(slot, &model_->hop(0, member_[position(stage, slot)]));
    matcher_.set_column(slot, member_[position(stage + 1, slot)]);
  }
}

void CommCostState::adopt_matching(int stage) {
  for (int slot = 0; slot < replicas_; ++slot) join(stage, slot, matcher_.column_of_row()[at(slot)]);
  measure_pairs(stage);
}

void CommCostState::join(int stage, int slot, int next_slot) {
  next_[position(stage, slot)] = next_slot;
  previous_[position(stage + 1, next_slot)] = slot;
}

/// Finds the best matching, starting from the current one.
void CommCostState::improve_matching(int stage) {
  load_hop(stage);
  matcher_.solve_from({&next_[position(stage, 0)], at(replicas_)});
  adopt_matching(stage);
}

/// Updates a hop after the swap of `a` and `b` has been applied. If the pairs they are now in are no slower
/// than the hop was, and its slowest pair is not affected, the matching and the cost of the hop remain valid.
/// Otherwise the best matching is computed, as it is wherever the evaluation of the swap assumed it: if both
/// ends of the hop changed, or if there are few replicas.
void CommCostState::update_hop(int stage, int a, int b) {
  bool as_fast = true;
  int ends = 0;
  for (const int device : {a, b}) {
    if (group_of(device) != stage && group_of(device) != stage + 1) continue;
    ++ends;
    const int slot =
        group_of(device) == stage ? slot_[at(device)] : previous_[position(stage + 1, slot_[at(device)])];
    as_fast &= slot != hop_[at(stage)].slowest_slot &&
               model_->hop(partner(device, stage), device) <= hop_[at(stage)].cost;
  }
  if (!as_fast || ends == 2 || is_small()) {
    improve_matching(stage);
    set_all_within(stage);
    return;
  }
  measure_pairs(stage);
  set_within_of(stage, a);
  set_within_of(stage, b);
}

void CommCostState::set_all_within(int stage) {
  const double max_cost = hop_[at(stage)].cost;
  const int* next = &member_[position(stage + 1, 0)];
  for (int slot = 0; slot < replicas_; ++slot) {
    const double* hop = &model_->hop(0, member_[position(stage, slot)]);
    for (std::size_t word = 0; word < words_; ++word) {
      const int first = static_cast<int>(word * 64), last = std::min(first + 64, replicas_);
      std::uint64_t set = 0;
      for (int other = first; other < last; ++other)
        set |= static_cast<std::uint64_t>(hop[next[other]] <= max_cost) << (other - first);
      within_[position(stage, slot) * words_ + word] = set;
    }
  }
}

/// Like `set_all_within`, if only the slot of `device` has a new member.
void CommCostState::set_within_of(int stage, int device) {
  for (int other = 0; other < replicas_; ++other) {
    if (group_of(device) == stage) set_within(stage, slot_[at(device)], other);
    if (group_of(device) == stage + 1) set_within(stage, other, slot_[at(device)]);
  }
}

void CommCostState::set_within(int stage, int slot, int next_slot) {
  std::uint64_t& word = within_[position(stage, slot) * words_ + at(next_slot) / 64];
  const std::uint64_t bit = std::uint64_t{1} << (at(next_slot) % 64);
  const bool is_within = model_->hop(member_[position(stage + 1, next_slot)],
                                     member_[position(stage, slot)]) <= hop_[at(stage)].cost;
  word = is_within ? word | bit : word & ~bit;
}

void CommCostState::measure_pairs(int stage) {
  Hop hop;
  hop.cost = hop.second = -infinity;
  for (int slot = 0; slot < replicas_; ++slot) {
    const double pair = model_->hop(member_[position(stage + 1, next_[position(stage, slot)])],
                                    member_[position(stage, slot)]);
    pair_[position(stage, slot)] = pair;
    hop.total += pair;
    if (pair > hop.cost) {
      hop.second = hop.cost;
      hop.cost = pair;
      hop.slowest_slot = slot;
    } else {
      hop.second = std::max(hop.second, pair);
    }
  }
  hop.energy = hop.cost + guidance_ * hop.total / replicas_;
  hop_[at(stage)] = hop;
}

int CommCostState::critical_device(int which, bool second_end) const {
  if (which > 0) {
    const int first = member_[position(which - 1, hop_[at(which - 1)].slowest_slot)];
    return second_end ? partner(first, which - 1) : first;
  }
  const auto slowest = std::max_element(group_sync_.begin(), group_sync_.end()) - group_sync_.begin();
  const auto members = group(static_cast<int>(slowest));
  return *std::max_element(members.begin(), members.end(),
                           [this](int x, int y) { return device_sync_[at(x)] < device_sync_[at(y)]; });
}

/// Returns the partner of `device` over hop `stage`; `device` must be in one of its two groups.
int CommCostState::partner(int device, int stage) const {
  const int slot = slot_[at(device)];
  return group_[at(device)] == stage ? member_[position(stage + 1, next_[position(stage, slot)])]
                                     : member_[position(stage, previous_[position(stage + 1, slot)])];
}

double CommCostState::sync_energy_after(std::span<const std::pair<int, int>> swaps) const {
  double slowest = 0, total = 0;
  for (int stage = 0; stage < stages_; ++stage) {
    total += group_total_[at(stage)];
    const bool changes = std::any_of(swaps.begin(), swaps.end(), [&](const auto& swap) {
      return stage == group_of(swap.first) || stage == group_of(swap.second);
    });
    if (!changes) slowest = std::max(slowest, group_sync_[at(stage)]);
  }
  for (const auto& [a, b] : swaps)
    for (const auto& [leaving, joining] : {std::pair{a, b}, std::pair{b, a}}) {
      const double* lost = &model_->sync(0, leaving);
      const double* gained = &model_->sync(0, joining);
      double joined = -gained[leaving];
      for (const int peer : group(group_of(leaving))) {
        joined += gained[peer];
        if (peer != leaving) slowest = std::max(slowest, device_sync_[at(peer)] - lost[peer] + gained[peer]);
      }
      slowest = std::max(slowest, joined);
      total += 2 * (joined - device_sync_[at(leaving)]);
    }
  return slowest + guidance_ * total / (stages_ * replicas_);
}

/// Evaluates hop `stage` with `joining` in the slot of `leaving`, in one of its two stages. If the current
/// pairs would then be slower than the hop is now, looks for a matching that is not; failing that, for the
/// best swap of two partners.
CommCostState::HopAfter CommCostState::hop_after(int stage, int leaving, int joining) {
  const Hop& hop = hop_[at(stage)];
  const bool is_first = group_of(leaving) == stage;
  const int slot = is_first ? slot_[at(leaving)] : previous_[position(stage + 1, slot_[at(leaving)])];
  const double* pairs = &pair_[position(stage, 0)];
  const double others = slot == hop.slowest_slot ? hop.second : hop.cost;
  const double after = model_->hop(partner(leaving, stage), joining);
  const double total = hop.total - pairs[slot] + after;
  if (after <= hop.cost) return {std::max(others, after), total};
  if (can_keep_cost(stage, slot, joining, is_first)) return {hop.cost, hop.total};
  const double* joining_hop = &model_->hop(0, joining);
  const double* left_hop = &model_->hop(0, partner(leaving, stage));
  double slowest = after, change = 0;
  for (int other = 0; other < replicas_; ++other) {
    const int first = member_[position(stage, other)];
    const int second = member_[position(stage + 1, next_[position(stage, other)])];
    const double mine = joining_hop[is_first ? second : first];
    const double theirs = left_hop[is_first ? first : second];
    if (other == slot || std::max(mine, theirs) >= slowest) continue;
    slowest = std::max(mine, theirs);
    change = mine + theirs - after - pairs[other];
  }
  return {std::max(others, slowest), total + change};
}

/// Returns whether hop `stage` still has a perfect matching no slower than its current one when `joining`
/// replaces the first (`is_first`) or second device of pair `slot`. Searches for an alternating path from the
/// row of that pair back to its column, breadth first over the sets of partners within the current cost.
bool CommCostState::can_keep_cost(int stage, int slot, int joining, bool is_first) {
  const double threshold = hop_[at(stage)].cost;
  const double* hop = &model_->hop(0, joining);
  const int free_column = next_[position(stage, slot)];
  const auto fits = [&](int peer_stage, int peer_slot) {
    return hop[member_[position(peer_stage, peer_slot)]] <= threshold;
  };
  std::fill(unvisited_.begin(), unvisited_.end(), ~std::uint64_t{0});
  unvisited_[at(free_column) / 64] &= ~(std::uint64_t{1} << (at(free_column) % 64));
  queue_.assign(1, slot);
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    const int row = queue_[i];
    const std::uint64_t* within = &within_[position(stage, row) * words_];
    const bool newcomer = is_first && row == slot;
    if (i > 0 &&
        (is_first ? (within[at(free_column) / 64] >> (at(free_column) % 64) & 1) != 0 : fits(stage, row)))
      return true;
    for (std::size_t word = 0; word < words_; ++word) {
      std::uint64_t columns = unvisited_[word];
      if (!newcomer) columns &= within[word];
      for (; columns != 0; columns &= columns - 1) {
        const int column = static_cast<int>(word * 64) + std::countr_zero(columns);
        if (column >= replicas_) break;
        if (newcomer && !fits(stage + 1, column)) continue;
        unvisited_[word] &= ~(std::uint64_t{1} << (at(column) % 64));
        queue_.push_back(previous_[position(stage + 1, column)]);
      }
    }
  }
  return false;
}

/// Evaluates hop `stage` when one device of each of its stages is replaced: {leaving, joining} in the first
/// and in the second stage.
CommCostState::HopAfter CommCostState::hop_after_both(int stage, std::pair<int, int> first,
                                                      std::pair<int, int> second) {
  int& first_member = member_[position(stage, slot_[at(first.first)])];
  int& second_member = member_[position(stage + 1, slot_[at(second.first)])];
  first_member = first.second;
  second_member = second.second;
  load_hop(stage);
  HopAfter after{matcher_.solve_from({&next_[position(stage, 0)], at(replicas_)}), 0};
  for (int slot = 0; slot < replicas_; ++slot)
    after.total += matcher_.cost(slot, matcher_.column_of_row()[at(slot)]);
  first_member = first.first;
  second_member = second.first;
  return after;
}

double CommCostState::energy_of(const HopAfter& hop) const {
  return hop.cost + guidance_ * hop.total / replicas_;
}

/// Upper bound on the energy that hop `stage` can save.
double CommCostState::max_savings(int stage) const {
  return hop_[at(stage)].energy - (1 + guidance_) * fastest_hop_;
}

EvaluatedSwap CommCostState::evaluate_swap(int a, int b, double limit) {
  EvaluatedSwap swap{a, b, infinity};
  // Hops not evaluated yet may still reduce the energy by up to `savings`, so only the rest may be compared
  // with `limit`.
  double savings = 0;
  auto touched = touched_hops(a, b);
  for (const int stage : touched)
    if (stage >= 0) savings += max_savings(stage);
  double total = energy_ - sync_energy_ + sync_energy_after(std::array{std::pair{a, b}});
  if (total - savings >= limit) return swap;
  for (const int stage : touched) {
    if (stage < 0) continue;
    savings -= max_savings(stage);
    const bool has_a = group_of(a) == stage || group_of(a) == stage + 1;
    const bool has_b = group_of(b) == stage || group_of(b) == stage + 1;
    const int in_first = group_of(a) == stage ? a : b, in_second = in_first == a ? b : a;
    const HopAfter after = has_a && has_b
                               ? hop_after_both(stage, {in_first, in_second}, {in_second, in_first})
                           : has_a ? hop_after(stage, a, b)
                                   : hop_after(stage, b, a);
    total += energy_of(after) - hop_[at(stage)].energy;
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
    const bool exists = touched[i] >= 0 && touched[i] + 1 < stages_;
    if (!exists || std::find(touched.begin(), here, touched[i]) != here) touched[i] = -1;
  }
  return touched;
}

void CommCostState::apply(const EvaluatedSwap& swap) {
  swap_devices(swap.a, swap.b);
  for (const int stage : touched_hops(swap.a, swap.b)) {
    if (stage >= 0) update_hop(stage, swap.a, swap.b);
  }
  add_up();
#ifdef DTFM_CHECK_MOVES
  check();
#endif
}

void CommCostState::check() const {
  const CommCost full = comm_cost(*model_, placement());
  DTFM_ASSERT(std::abs(full.total() - cost()) <= 1e-9 * full.total());
}

Placement CommCostState::placement() const {
  Placement result(stages_, replicas_);
  for (int replica = 0; replica < replicas_; ++replica) {
    int slot = replica;
    for (int stage = 0; stage < stages_; ++stage) {
      result.at(stage, replica) = member_[position(stage, slot)];
      slot = next_[position(stage, slot)];
    }
  }
  return result;
}

}  // namespace dtfm::cost
