#include "simulator/network/partial_filling.hpp"

#include <algorithm>
#include <cmath>

#include "simulator/network/independent_links.hpp"
#include "simulator/network/tolerance.hpp"

namespace dtfm::sim {
namespace {

using Use = FlowTable::Use;
using Slot = FlowTable::Slot;

/// For this many rounds only inconsistent links are opened. After that all touched links are opened, which
/// guarantees termination.
constexpr int careful_rounds = 6;

bool nearly_equal(double a, double b, double tolerance) {
  return a == b || std::abs(a - b) <= tolerance * b;
}

}  // namespace

void PartialFilling::update(double now, const StopFunction& stop) {
  flow_states_.resize(state_.flows.size());
  stops_.resize(state_.flows.size());
  links_.resize(state_.links.size());
  unfreeze_changed();
  for (int round = 1;; ++round) {
    fill(stop);
    if (!open_inconsistent_links(round > careful_rounds)) break;
  }
  commit(now);
}

/// Unfreezes the new flows and the affected flows on changed links. A link of capacity C cannot limit any of
/// its flows below the level C ÷ load, which bounds the affected levels from below.
void PartialFilling::unfreeze_changed() {
  for (const int flow : state_.restarted) {
    state_.lower_affected_from(state_.flow(flow).level_cap);
    if (state_.flow(flow).bottleneck != no_index) state_.lower_affected_from(state_.level(flow));
    for (const Use& use : state_.table.uses(flow)) {
      const FluidLink& link = state_.link(use.link);
      if (!link.fatpipe) state_.lower_affected_from(link.capacity / link.load);
      state_.push_if_full(use.link);
    }
  }
  for (const int flow : state_.restarted) unfreeze_flow(flow);
  for (const int link : state_.changed_links) open(link);
}

void PartialFilling::touch(int number) {
  LinkFilling& filling = links_[at(number)];
  if (filling.touched) return;
  filling = {};
  filling.touched = true;
  const FluidLink& link = state_.link(number);
  filling.frozen = link.total_demand;
  if (link.independent || link.loose > 0) {
    filling.frozen = 0;
    for (const Slot& slot : state_.table.slots(number)) filling.frozen += slot.load * state_.level(slot.flow);
  }
  touched_.push_back(number);
}

void PartialFilling::unfreeze_flow(int number) {
  if (!is_frozen(number)) return;
  flow_states_[at(number)] = FlowState::rising;
  unfrozen_.push_back(number);
  for (const Use& use : state_.table.uses(number)) {
    if (state_.link(use.link).fatpipe) continue;
    touch(use.link);
    LinkFilling& filling = links_[at(use.link)];
    filling.frozen -= use.load * state_.level(number);
    filling.rising_load += use.load;
    ++filling.rising;
  }
  if (const int bottleneck = state_.flow(number).bottleneck; bottleneck != no_index)
    ++links_[at(bottleneck)].held_rising;
}

/// Unfreezes those flows of a link that can change. Sums the frozen flows from scratch, so that rounding
/// errors do not accumulate.
void PartialFilling::open(int number) {
  touch(number);
  LinkFilling& filling = links_[at(number)];
  if (filling.open) return;
  filling.open = true;
  double frozen = 0, load = 0;
  for (const Slot& slot : state_.table.slots(number)) {
    load += slot.load;
    const double level = state_.level(slot.flow);
    if (level >= state_.affected_from) unfreeze_flow(slot.flow);
    if (is_frozen(slot.flow)) frozen += slot.load * level;
  }
  state_.link(number).load = load;
  filling.frozen = frozen;
}

/// Progressive filling of the capacity that frozen flows leave.
void PartialFilling::fill(const StopFunction& stop) {
  push_candidates();
  stopped_ = 0;
  double level = 0;
  for (std::size_t step = 0; stopped_ < unfrozen_.size() && !heap_.empty(); ++step) {
    throw_if_stopped(stop, step);
    level = rise(level);
  }
  for (std::size_t i = 0; stopped_ < unfrozen_.size(); ++i)
    if (flow_states_[at(unfrozen_[i])] == FlowState::rising) stop_flow(unfrozen_[i], infinity, no_index);
}

void PartialFilling::push_candidates() {
  heap_.clear();
  for (const int number : touched_) {
    LinkFilling& filling = links_[at(number)];
    filling.left = std::max(0.0, state_.link(number).capacity - filling.frozen);
    filling.left_load = filling.rising_load;
    filling.left_rising = filling.rising;
    filling.next_level = infinity;
    if (filling.rising > 0) heap_.push_back({filling.left / filling.left_load, number});
  }
  for (const int number : unfrozen_) {
    flow_states_[at(number)] = FlowState::rising;
    const double level_cap = state_.flow(number).level_cap;
    if (level_cap < infinity) heap_.push_back({level_cap, ~number});
  }
  std::make_heap(heap_.begin(), heap_.end());
}

/// Raises the level to the lowest candidate's and stops the flows that this one limits. Returns the new
/// level. The level at which a link saturates can only grow when flows stop, so an outdated candidate is
/// pushed again with its new level.
double PartialFilling::rise(double level) {
  std::pop_heap(heap_.begin(), heap_.end());
  const Candidate top = heap_.back();
  heap_.pop_back();
  if (top.id < 0) {
    level = nearly_equal(top.level, level, relative_tolerance) ? level : top.level;
    if (flow_states_[at(~top.id)] == FlowState::rising) stop_flow(~top.id, level, no_index);
    return level;
  }
  const LinkFilling& filling = links_[at(top.id)];
  if (filling.left_rising == 0) return level;
  const double here = filling.left / filling.left_load;
  if (here > top.level * (1 + relative_tolerance)) {
    heap_.push_back({here, top.id});
    std::push_heap(heap_.begin(), heap_.end());
    return level;
  }
  level = nearly_equal(here, level, relative_tolerance) ? level : std::max(level, here);
  stop_all_on(top.id, level);
  return level;
}

void PartialFilling::stop_flow(int number, double level, int bottleneck) {
  flow_states_[at(number)] = FlowState::stopped;
  ++stopped_;
  stops_[at(number)] = {level, bottleneck};
  for (const Use& use : state_.table.uses(number)) {
    LinkFilling& filling = links_[at(use.link)];
    filling.left = std::max(0.0, filling.left - use.load * level);
    filling.left_load -= use.load;
    --filling.left_rising;
  }
}

void PartialFilling::stop_all_on(int number, double level) {
  links_[at(number)].next_level = level;
  for (const Slot& slot : state_.table.slots(number))
    if (flow_states_[at(slot.flow)] == FlowState::rising) stop_flow(slot.flow, level, number);
}

/// Whether frozen flows on this link can no longer stay frozen: either the link is the bottleneck of some of
/// them at a level that has changed, or it is now a bottleneck at a level below that of some of them.
bool PartialFilling::is_inconsistent(int number) const {
  const FluidLink& link = state_.link(number);
  const LinkFilling& filling = links_[at(number)];
  const std::vector<Slot>& slots = state_.table.slots(number);
  if (link.held > filling.held_rising) return !nearly_equal(filling.next_level, link.level, frozen_tolerance);
  if (filling.next_level == infinity) return false;
  const double max_level = filling.next_level * (1 + frozen_tolerance);
  return std::any_of(slots.begin(), slots.end(), [&](const Slot& slot) {
    return is_frozen(slot.flow) && state_.level(slot.flow) > max_level;
  });
}

bool PartialFilling::open_inconsistent_links(bool all) {
  bool opened = false;
  const std::size_t filled = touched_.size();
  for (std::size_t i = 0; i < (all ? touched_.size() : filled); ++i) {
    const int number = touched_[i];
    const LinkFilling& filling = links_[at(number)];
    if (filling.open || at(filling.rising) == state_.table.slots(number).size()) continue;
    if (!all && !is_inconsistent(number)) continue;
    open(number);
    opened = true;
  }
  return opened;
}

void PartialFilling::commit(double now) {
  for (const int flow : unfrozen_) state_.tighten(flow, 0);
  for (const int link : touched_) commit_link(link, now);
  for (const int flow : unfrozen_) commit_flow(flow, now);
  for (const int link : touched_) make_holders_dependent(state_, link);
  unfrozen_.clear();
  touched_.clear();
}

void PartialFilling::commit_link(int number, double now) {
  FluidLink& link = state_.link(number);
  LinkFilling& filling = links_[at(number)];
  link.held -= filling.held_rising;
  if (link.held == 0) {
    link.level = filling.next_level;
    link.independent = false;
    link.dependents.clear();
  }
  if (link.level < infinity &&
      !nearly_equal(link.level, state_.ends.level_of_link(number), relative_tolerance))
    state_.ends.set_level(number, link.level, now);
  if (!link.independent && link.loose == 0) link.total_demand = filling.frozen;
  filling.touched = false;
}

void PartialFilling::commit_flow(int number, double now) {
  FluidFlow& flow = state_.flow(number);
  flow.bottleneck = stops_[at(number)].bottleneck;
  if (flow.bottleneck != no_index) {
    FluidLink& link = state_.link(flow.bottleneck);
    ++link.held;
    state_.set_demand(number, link.level);  // equals the level of frozen flows with this bottleneck, if any
    if (link.independent) {
      state_.set_loose(number, true);
      link.min_demand = std::min(link.min_demand, flow.demand);
    }
    if (state_.ends.holder(number) != flow.bottleneck) state_.ends.hold(number, flow.bottleneck, now);
  } else {
    state_.set_demand(number, stops_[at(number)].level);
    state_.ends.set_own_level(number, stops_[at(number)].level, now);
  }
  flow.up_to_date = true;
  flow_states_[at(number)] = FlowState::frozen;
}

}  // namespace dtfm::sim
