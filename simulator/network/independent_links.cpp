#include "simulator/network/independent_links.hpp"

#include <algorithm>
#include <cmath>

#include "simulator/network/tolerance.hpp"

namespace dtfm::sim {
namespace {

using Use = FlowTable::Use;
using Slot = FlowTable::Slot;

/// Flows demand up to this factor times their level, where there is room. As n flows leave one by one,
/// demands are therefore renewed log(n) ÷ log(headroom) times.
constexpr double headroom = 1.25;
/// Levels of links that depend on each other are corrected one by one, this many times per changed link on
/// average. Links that have not converged by then go through the general algorithm.
constexpr std::size_t rounds = 8;

/// Splits the flows on a link into those with another bottleneck and the rest, which are this link's own or
/// new. The sums are incomplete if `unsettled` is above 1.
struct LoadSplit {
  double passing = 0, max_level = 0;  // flows with another bottleneck: bytes per second, highest level
  double load = 0;                    // of the rest, at level 1
  int unsettled = 0;                  // number of new flows among the rest
};

/// Whether the flow has no valid rate yet and did not have `link` as its bottleneck before.
bool is_new(const FluidFlow& flow, int link) {
  return !flow.up_to_date && flow.bottleneck != link;
}

LoadSplit load_split(const FluidState& state, int number) {
  const FluidLink& link = state.link(number);
  const std::vector<Slot>& slots = state.table.slots(number);
  LoadSplit result;
  // Usually the link is the bottleneck of all its flows, or of all but the newest, and no sum is needed.
  result.unsettled = !slots.empty() && is_new(state.flow(slots.back().flow), number) ? 1 : 0;
  if (at(link.held + result.unsettled) == slots.size()) {
    result.load = link.load;
    return result;
  }
  result.unsettled = 0;
  for (std::size_t i = slots.size(); i-- > 0 && result.unsettled <= 1;) {  // new flows come last
    const Slot& slot = slots[i];
    const FluidFlow& flow = state.flow(slot.flow);
    if (flow.bottleneck == number || !flow.up_to_date) {
      result.load += slot.load;
      result.unsettled += flow.up_to_date ? 0 : 1;
    } else {
      result.passing += slot.load * state.level(slot.flow);
      result.max_level = std::max(result.max_level, state.level(slot.flow));
    }
  }
  return result;
}

void add_dependent(FluidLink& link, int dependent) {
  std::vector<int>& dependents = link.dependents;
  if (std::find(dependents.begin(), dependents.end(), dependent) == dependents.end())
    dependents.push_back(dependent);
}

/// Makes the bottlenecks that the flow crosses, other than its own, dependents of its own.
void add_dependents_of(FluidState& state, int flow) {
  const int bottleneck = state.flow(flow).bottleneck;
  for (const Use& use : state.table.uses(flow))
    if (use.link != bottleneck && state.link(use.link).held > 0)
      add_dependent(state.link(bottleneck), use.link);
}

/// Registers a full link as a dependent of the other bottlenecks of its loose flows.
void add_to_holders(FluidState& state, int number) {
  for (const Slot& slot : state.table.slots(number))
    if (const FluidFlow& flow = state.flow(slot.flow); flow.loose && flow.bottleneck != number)
      add_dependent(state.link(flow.bottleneck), number);
}

void make_dependent(FluidState& state, int number) {
  FluidLink& link = state.link(number);
  link.independent = false;
  link.dependents.clear();
  for (const Slot& slot : state.table.slots(number))
    if (const FluidFlow& flow = state.flow(slot.flow); flow.loose && flow.bottleneck == number)
      state.tighten(slot.flow, link.level);
}

/// Whether the flow's demand matters on this link, which is neither its bottleneck nor another's.
bool reserves(const FluidState& state, int flow, const Use& use) {
  const FluidLink& link = state.link(use.link);
  return use.link != state.flow(flow).bottleneck && !link.fatpipe && link.held == 0;
}

/// If the other links of a flow have room for it at `level`, sets its demand to what they have, at most
/// `max_demand`, and returns true.
bool demand(FluidState& state, int number, double level, double max_demand) {
  const double before = state.flow(number).demand;
  double room = std::min(max_demand, state.flow(number).level_cap);
  for (const Use& use : state.table.uses(number))
    if (const FluidLink& link = state.link(use.link); reserves(state, number, use))
      room = std::min(room, before + (link.capacity - link.total_demand) / use.load);
  if (room < level) return false;
  state.set_demand(number, room);
  for (const Use& use : state.table.uses(number)) {  // a flow may cross the same link more than once
    const FluidLink& link = state.link(use.link);
    if (!reserves(state, number, use) || link.total_demand <= link.capacity * (1 + relative_tolerance))
      continue;
    state.set_demand(number, before);
    return false;
  }
  state.set_loose(number, true);
  return true;
}

/// Raises the demands of the flows whose bottleneck is the link to at least `level`. Returns false, and makes
/// the link dependent, where other links have no room for this.
bool make_independent(FluidState& state, int number, double level) {
  FluidLink& link = state.link(number);
  const double needed = std::max(level, link.level);
  link.min_demand = infinity;
  for (const Slot& slot : state.table.slots(number)) {
    const FluidFlow& flow = state.flow(slot.flow);
    if (!flow.up_to_date || flow.bottleneck != number) continue;
    if (!demand(state, slot.flow, needed, needed * headroom)) {
      make_dependent(state, number);
      return false;
    }
    link.min_demand = std::min(link.min_demand, flow.demand);
    add_dependents_of(state, slot.flow);
  }
  link.independent = true;
  return true;
}

void set_link_level(FluidState& state, int number, double level, double now) {
  FluidLink& link = state.link(number);
  link.level = level;
  state.ends.set_level(number, level, now);
  std::erase_if(link.dependents, [&](int dependent) { return state.link(dependent).held == 0; });
  for (const int dependent : link.dependents) state.push_changed(dependent);
}

/// Corrects the level of a bottleneck link after its available capacity or its set of flows has changed.
/// Returns false if the change needs the general algorithm.
bool adjust_level(FluidState& state, int number, double now) {
  FluidLink& link = state.link(number);
  if (link.held == 0) {
    if (link.total_demand > link.capacity) return false;
    link.level = infinity;
    link.independent = false;
    link.dependents.clear();
    return true;
  }
  const LoadSplit split = load_split(state, number);
  const double level = (link.capacity - split.passing) / split.load;
  if (split.unsettled > 0 || !(level >= split.max_level)) return false;
  if (std::abs(level - link.level) <= relative_tolerance * level) return true;
  if ((!link.independent || level > link.min_demand) && !make_independent(state, number, level)) return false;
  set_link_level(state, number, level, now);
  return true;
}

void adjust_all(FluidState& state, double now, const StopFunction& stop) {
  std::vector<int>& changed = state.changed_links;
  const std::size_t enough = rounds * changed.size();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < changed.size(); ++i) {
    throw_if_stopped(stop, i);
    if (const int link = changed[i]; i >= enough || !adjust_level(state, link, now)) changed[kept++] = link;
  }
  changed.resize(kept);
}

/// The link that limits the level of a new flow, and the level; no_index if the general algorithm is needed,
/// for instance because another new flow shares a link with it.
struct Bottleneck {
  int link = no_index;
  double level = 0;
};

Bottleneck find_bottleneck(const FluidState& state, int flow) {
  Bottleneck result{no_index, state.flow(flow).level_cap};
  double max_level = 0;
  for (const Use& use : state.table.uses(flow)) {
    const FluidLink& link = state.link(use.link);
    if (link.fatpipe) continue;
    const LoadSplit split = load_split(state, use.link);
    if (split.unsettled > 1) return {};
    const double here = (link.capacity - split.passing) / split.load;
    if (here >= result.level) continue;
    result = {use.link, here};
    max_level = split.max_level;
  }
  return result.level >= max_level ? result : Bottleneck{};
}

/// Gives a new flow its bottleneck and rate. Returns false if the general algorithm is needed.
bool join_bottleneck(FluidState& state, int number, double now) {
  FluidFlow& flow = state.flow(number);
  if (flow.bottleneck != no_index || flow.demand > 0) return false;
  const auto [holder, level] = find_bottleneck(state, number);
  if (holder == no_index) return false;
  FluidLink& link = state.link(holder);
  const bool first = link.held == 0, others_demand = !first && (!link.independent || level > link.min_demand);
  flow.bottleneck = holder;
  if (!demand(state, number, level, first || others_demand ? level * headroom : link.min_demand) ||
      (others_demand && !make_independent(state, holder, level))) {
    state.tighten(number, 0);
    flow.bottleneck = no_index;
    return false;
  }
  link.min_demand = first ? flow.demand : std::min(link.min_demand, flow.demand);
  link.independent = flow.up_to_date = true;
  ++link.held;
  add_dependents_of(state, number);
  if (first) add_to_holders(state, holder);
  set_link_level(state, holder, level, now);
  state.ends.hold(number, holder, now);
  return true;
}

}  // namespace

void update_independent_links(FluidState& state, double now, const StopFunction& stop) {
  adjust_all(state, now, stop);
  std::size_t joined = 0;
  std::erase_if(state.restarted, [&](int flow) {
    throw_if_stopped(stop, joined++);
    return join_bottleneck(state, flow, now);
  });
  adjust_all(state, now, stop);
}

void make_holders_dependent(FluidState& state, int number) {
  const FluidLink& link = state.link(number);
  if (link.loose == 0) return;
  if (link.held > 0) return add_to_holders(state, number);
  if (link.total_demand <= link.capacity * (1 + relative_tolerance)) return;
  for (const Slot& slot : state.table.slots(number))
    if (const FluidFlow& flow = state.flow(slot.flow); flow.loose) make_dependent(state, flow.bottleneck);
}

}  // namespace dtfm::sim
