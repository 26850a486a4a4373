// The exchange of two runs of stages: a move of CommCostState.
#include "planner/core/index.hpp"
#include "planner/cost/comm_cost_state.hpp"

namespace dtfm {
namespace {

/// Whether hop `stage` has an end in the `length` stages from `first` on.
bool is_touched(int stage, int first, int length) {
  return stage >= first - 1 && stage < first + length;
}

}  // namespace

bool CommCostState::exchange_runs(StageRun a, StageRun b, int length, double limit) {
  std::vector<std::pair<int, int>> swaps;
  for (int i = 0; i < length; ++i) {
    swaps.emplace_back(member_[position(a.stage + i, a.slot)], member_[position(b.stage + i, b.slot)]);
    if (i + 1 == length) break;
    a.slot = next_[position(a.stage + i, a.slot)];
    b.slot = next_[position(b.stage + i, b.slot)];
  }
  std::vector<int> touched;  // hops, each by its first stage
  double savings = 0;        // what those not measured yet may still save
  for (int stage = 0; stage + 1 < stages_; ++stage) {
    if (!is_touched(stage, a.stage, length) && !is_touched(stage, b.stage, length)) continue;
    touched.push_back(stage);
    savings += most_savings(stage);
  }
  double energy = energy_ - sync_energy_ + sync_energy_after(swaps);
  if (energy - savings >= limit) return false;

  exchange_seats(swaps);
  saved_next_.clear();
  std::size_t measured = 0;
  while (measured < touched.size() && energy - savings < limit) {
    const int stage = touched[measured++];
    const auto next = next_.begin() + static_cast<std::ptrdiff_t>(position(stage, 0));
    saved_next_.insert(saved_next_.end(), next, next + replicas_);
    const Hop before = hop_[at(stage)];
    savings -= most_savings(stage);
    measure_pairs(stage);
    if (is_small() || hop_[at(stage)].cost > before.cost) improve_matching(stage);
    energy += hop_[at(stage)].energy - before.energy;
  }
  const bool accepted = energy < limit;
  exchange_seats(swaps);
  if (accepted) {
    for (const auto& [one, other] : swaps) replace_each_other(one, other);
    for (const int stage : touched) set_all_within(stage);
    add_up();
  } else {
    for (std::size_t i = 0; i < measured; ++i) {
      for (int slot = 0; slot < replicas_; ++slot)
        join(touched[i], slot, saved_next_[i * at(replicas_) + at(slot)]);
      measure_pairs(touched[i]);
    }
  }
#ifdef DTFM_CHECK_MOVES
  check();
#endif
  return accepted;
}

void CommCostState::exchange_seats(std::span<const std::pair<int, int>> swaps) {
  for (const auto& [a, b] : swaps) {
    const StageRun seat_of_a{group_of(a), slot_[at(a)]};
    seat(group_of(b), slot_[at(b)], a);
    seat(seat_of_a.stage, seat_of_a.slot, b);
  }
}

}  // namespace dtfm
