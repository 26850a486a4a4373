#include "simulator/network/fluid_network.hpp"

#include <algorithm>

#include "simulator/network/independent_links.hpp"
#include "simulator/network/tolerance.hpp"

namespace dtfm::sim {
namespace {

using Use = FlowTable::Use;
using Slot = FlowTable::Slot;

void recompute_sums(FluidState& state, int number) {
  FluidLink& link = state.link(number);
  link.load = link.total_demand = 0;
  link.removed_since_sum = 0;
  for (const Slot& slot : state.table.slots(number)) {
    link.load += slot.load;
    link.total_demand += slot.load * state.flow(slot.flow).demand;
  }
}

void detach(FluidState& state, const FluidFlow& flow, const Use& use) {
  state.table.detach(use);
  FluidLink& link = state.link(use.link);
  link.load -= use.load;
  link.total_demand -= use.load * flow.demand;
  if (flow.loose && use.link != flow.bottleneck) --link.loose;
  // Summing from scratch now and then keeps rounding errors from accumulating.
  if (++link.removed_since_sum > static_cast<int>(state.table.slots(use.link).size()))
    recompute_sums(state, use.link);
}

void set_level_cap(FluidState& state, int number) {
  FluidFlow& flow = state.flow(number);
  flow.level_cap = flow.rate_cap / state.ends.weight(number);
  for (const Use& use : state.table.uses(number))
    if (const FluidLink& link = state.link(use.link); link.fatpipe)
      flow.level_cap = std::min(flow.level_cap, link.capacity / use.load);
}

/// After the capacity of a fat pipe on its way has changed.
void change_level_cap(FluidState& state, int number) {
  set_level_cap(state, number);
  FluidFlow& flow = state.flow(number);
  if (!flow.up_to_date) return;
  state.lower_affected_from(state.level(number));
  for (const Use& use : state.table.uses(number)) state.push_if_full(use.link);
  flow.up_to_date = false;
  state.restarted.push_back(number);
}

}  // namespace

FluidNetwork::FluidNetwork(std::span<const LinkCapacity> links) : filling_(state_) {
  state_.links.resize(links.size());
  for (std::size_t i = 0; i < links.size(); ++i) {
    state_.links[i].capacity = links[i].capacity;
    state_.links[i].fatpipe = links[i].sharing == Sharing::fatpipe;
    state_.table.add_link();
    state_.ends.add_link();
  }
}

int FluidNetwork::add(std::span<const LinkUse> link_uses, double amount, double weight, double rate_cap,
                      int own_links) {
  const int number = state_.table.add(link_uses, weight, own_links);
  if (state_.flows.size() <= at(number)) state_.flows.resize(at(number) + 1);
  state_.flow(number) = {rate_cap};
  state_.ends.start(number, amount, weight);
  for (const Use& use : state_.table.uses(number)) state_.link(use.link).load += use.load;
  set_level_cap(state_, number);
  state_.restarted.push_back(number);
  return number;
}

void FluidNetwork::remove(int number) {
  const FluidFlow& flow = state_.flow(number);
  if (flow.up_to_date)
    state_.lower_affected_from(state_.level(number));
  else
    state_.restarted.erase(std::find(state_.restarted.begin(), state_.restarted.end(), number));
  for (const Use& use : state_.table.uses(number)) {
    detach(state_, flow, use);
    if (flow.up_to_date) state_.push_if_full(use.link);
  }
  if (flow.bottleneck != no_index) --state_.link(flow.bottleneck).held;
  state_.ends.remove(number);
  state_.table.release(number);
}

void FluidNetwork::set_capacity(int number, double capacity) {
  FluidLink& link = state_.link(number);
  link.capacity = capacity;
  if (link.fatpipe) {
    for (const Slot& slot : state_.table.slots(number)) change_level_cap(state_, slot.flow);
    return;
  }
  if (link.level == infinity && link.total_demand < capacity * (1 - relative_tolerance)) return;
  state_.push_changed(number);
}

void FluidNetwork::update_rates(double now, const StopFunction& stop) {
  if (!state_.has_changes()) return;
  update_independent_links(state_, now, stop);
  if (state_.has_changes()) filling_.update(now, stop);
  state_.restarted.clear();
  state_.changed_links.clear();
  state_.affected_from = infinity;
}

}  // namespace dtfm::sim
