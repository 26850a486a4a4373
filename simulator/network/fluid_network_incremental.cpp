// Updates that affect a single bottleneck link and nothing else.
//
// A link is independent if its level can change without affecting any other link: no other link that its
// flows cross is a bottleneck, and each of them has room for all its flows at their demands, which are above
// their current levels. As long as the level stays below all demands, an update changes one number, however
// many flows the link has.
#include <algorithm>
#include <cmath>

#include "core/base/infinity.hpp"
#include "simulator/network/fluid_network.hpp"
#include "simulator/network/tolerance.hpp"

namespace dtfm::sim {
namespace {

/// Flows demand up to this factor times their level, where there is room. As n flows leave one by one,
/// demands are therefore renewed log(n) ÷ log(headroom) times.
constexpr double headroom = 1.25;
/// Levels of links that depend on each other are corrected one by one, this many times per changed link on
/// average. Links that have not converged by then go through the general algorithm.
constexpr std::size_t rounds = 8;

}  // namespace

/// Processes the changes that need no general update and leaves the others queued.
void FluidNetwork::update_independent(double now) {
  adjust_all(now);
  std::size_t joined = 0;
  std::erase_if(restarted_, [&](int flow) {
    check_stop(joined++);
    return join_bottleneck(flow, now);
  });
  adjust_all(now);
}

void FluidNetwork::adjust_all(double now) {
  const std::size_t enough = rounds * changed_links_.size();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < changed_links_.size(); ++i) {
    check_stop(i);
    if (const int link = changed_links_[i]; i >= enough || !adjust_level(link, now))
      changed_links_[kept++] = link;
  }
  changed_links_.resize(kept);
}

/// Whether the flow has no valid rate yet and did not have `link` as its bottleneck before.
bool FluidNetwork::is_new(const Slot& slot, int link) const {
  const Flow& flow = flows_[index(slot.flow)];
  return !flow.up_to_date && flow.bottleneck != link;
}

FluidNetwork::LoadSplit FluidNetwork::load_split(int number) const {
  const Link& link = links_[index(number)];
  const std::vector<Slot>& slots = slots_[index(number)];
  LoadSplit result;
  // Usually the link is the bottleneck of all its flows, or of all but the newest, and no sum is needed.
  result.unsettled = !slots.empty() && is_new(slots.back(), number) ? 1 : 0;
  if (index(link.held + result.unsettled) == slots.size()) {
    result.load = link.load;
    return result;
  }
  result.unsettled = 0;
  for (std::size_t i = slots.size(); i-- > 0 && result.unsettled <= 1;) {  // new flows come last
    const Slot& slot = slots[i];
    const Flow& flow = flows_[index(slot.flow)];
    if (flow.bottleneck == number || !flow.up_to_date) {
      result.load += slot.load;
      result.unsettled += flow.up_to_date ? 0 : 1;
    } else {
      result.passing += slot.load * level(flow);
      result.max_level = std::max(result.max_level, level(flow));
    }
  }
  return result;
}

/// Corrects the level of a bottleneck link after its available capacity or its set of flows has changed.
/// Returns false if the change needs the general algorithm.
bool FluidNetwork::adjust_level(int number, double now) {
  Link& link = links_[index(number)];
  if (link.held == 0) {
    if (link.total_demand > link.capacity) return false;
    link.level = infinity;
    link.independent = false;
    link.dependents.clear();
    return true;
  }
  const LoadSplit load_split = this->load_split(number);
  const double level = (link.capacity - load_split.passing) / load_split.load;
  if (load_split.unsettled > 0 || !(level >= load_split.max_level)) return false;
  if (std::abs(level - link.level) <= relative_tolerance * level) return true;
  if ((!link.independent || level > link.min_demand) && !make_independent(number, level)) return false;
  set_link_level(number, level, now);
  return true;
}

/// Gives a new flow its bottleneck and rate. Returns false if the general algorithm is needed, for instance
/// because another new flow shares a link with it.
bool FluidNetwork::join_bottleneck(int number, double now) {
  Flow& flow = flows_[index(number)];
  if (flow.bottleneck != none || flow.demand > 0) return false;
  int holder = none;
  double level = flow.level_cap, max_level = 0;
  for (const Use& use : uses(flow)) {
    const Link& link = links_[index(use.link)];
    if (link.fatpipe) continue;
    const LoadSplit load_split = this->load_split(use.link);
    if (load_split.unsettled > 1) return false;
    const double here = (link.capacity - load_split.passing) / load_split.load;
    if (here >= level) continue;
    level = here;
    max_level = load_split.max_level;
    holder = use.link;
  }
  if (holder == none || !(level >= max_level)) return false;
  Link& link = links_[index(holder)];
  const bool first = link.held == 0, others_demand = !first && (!link.independent || level > link.min_demand);
  flow.bottleneck = holder;
  if (!demand(flow, level, first || others_demand ? level * headroom : link.min_demand) ||
      (others_demand && !make_independent(holder, level))) {
    tighten(flow, 0);
    flow.bottleneck = none;
    return false;
  }
  link.min_demand = first ? flow.demand : std::min(link.min_demand, flow.demand);
  link.independent = flow.up_to_date = true;
  ++link.held;
  for (const Use& use : uses(flow))
    if (use.link != holder && links_[index(use.link)].held > 0) add_dependent(holder, use.link);
  if (first) add_to_holders(holder);
  set_link_level(holder, level, now);
  ends_.hold(number, holder, now);
  return true;
}

void FluidNetwork::set_link_level(int number, double level, double now) {
  Link& link = links_[index(number)];
  link.level = level;
  ends_.set_level(number, level, now);
  std::erase_if(link.dependents, [&](int dependent) { return links_[index(dependent)].held == 0; });
  for (const int dependent : link.dependents) push_changed(dependent);
}

void FluidNetwork::push_changed(int number) {
  const Link& link = links_[index(number)];
  affected_from(link.level);
  affected_from(link.capacity / link.load);
  changed_links_.push_back(number);
}

void FluidNetwork::add_dependent(int number, int dependent) {
  std::vector<int>& dependents = links_[index(number)].dependents;
  if (std::find(dependents.begin(), dependents.end(), dependent) == dependents.end())
    dependents.push_back(dependent);
}

/// Registers a full link as a dependent of the other bottlenecks of its loose flows.
void FluidNetwork::add_to_holders(int number) {
  for (const Slot& slot : slots_[index(number)])
    if (const Flow& flow = flows_[index(slot.flow)]; flow.loose && flow.bottleneck != number)
      add_dependent(flow.bottleneck, number);
}

/// Raises the demands of the flows whose bottleneck is the link to at least `level`. Returns false, and makes
/// the link dependent, where other links have no room for this.
bool FluidNetwork::make_independent(int number, double level) {
  Link& link = links_[index(number)];
  const double needed = std::max(level, link.level);
  link.min_demand = infinity;
  for (const Slot& slot : slots_[index(number)]) {
    Flow& flow = flows_[index(slot.flow)];
    if (!flow.up_to_date || flow.bottleneck != number) continue;
    if (!demand(flow, needed, needed * headroom)) {
      make_dependent(number);
      return false;
    }
    link.min_demand = std::min(link.min_demand, flow.demand);
    for (const Use& use : uses(flow))
      if (use.link != number && links_[index(use.link)].held > 0) add_dependent(number, use.link);
  }
  link.independent = true;
  return true;
}

/// If the other links of a flow have room for it at `level`, sets its demand to what they have, at most
/// `max_demand`, and returns true.
bool FluidNetwork::demand(Flow& flow, double level, double max_demand) {
  double room = std::min(max_demand, flow.level_cap);
  for (const Use& use : uses(flow)) {
    const Link& link = links_[index(use.link)];
    if (use.link == flow.bottleneck || link.fatpipe) continue;
    if (link.held > 0) continue;
    room = std::min(room, flow.demand + (link.capacity - link.total_demand) / use.load);
  }
  if (room < level) return false;
  const double before = flow.demand;
  set_demand(flow, room);
  for (const Use& use : uses(flow)) {  // a flow may cross the same link more than once
    const Link& link = links_[index(use.link)];
    if (use.link == flow.bottleneck || link.fatpipe || link.held > 0 ||
        link.total_demand <= link.capacity * (1 + relative_tolerance))
      continue;
    set_demand(flow, before);
    return false;
  }
  loosen(flow);
  return true;
}

void FluidNetwork::set_demand(Flow& flow, double level) {
  for (const Use& use : uses(flow)) links_[index(use.link)].total_demand += use.load * (level - flow.demand);
  flow.demand = level;
}

void FluidNetwork::loosen(Flow& flow) {
  if (flow.loose) return;
  flow.loose = true;
  for (const Use& use : uses(flow))
    if (use.link != flow.bottleneck) ++links_[index(use.link)].loose;
}

void FluidNetwork::tighten(Flow& flow, double level) {
  if (flow.loose)
    for (const Use& use : uses(flow))
      if (use.link != flow.bottleneck) --links_[index(use.link)].loose;
  flow.loose = false;
  set_demand(flow, level);
}

void FluidNetwork::make_dependent(int number) {
  Link& link = links_[index(number)];
  link.independent = false;
  link.dependents.clear();
  for (const Slot& slot : slots_[index(number)])
    if (Flow& flow = flows_[index(slot.flow)]; flow.loose && flow.bottleneck == number)
      tighten(flow, link.level);
}

/// A link that has become a bottleneck becomes a dependent of the bottlenecks of its loose flows. If a link
/// has no room for all demands, those bottlenecks lose their independence.
void FluidNetwork::make_holders_dependent(int number) {
  const Link& link = links_[index(number)];
  if (link.loose == 0) return;
  if (link.held > 0) return add_to_holders(number);
  if (link.total_demand <= link.capacity * (1 + relative_tolerance)) return;
  for (const Slot& slot : slots_[index(number)])
    if (const Flow& flow = flows_[index(slot.flow)]; flow.loose) make_dependent(flow.bottleneck);
}

void FluidNetwork::recompute_sums(int number) {
  Link& link = links_[index(number)];
  link.load = link.total_demand = 0;
  link.removed_since_sum = 0;
  for (const Slot& slot : slots_[index(number)]) {
    link.load += slot.load;
    link.total_demand += slot.load * flows_[index(slot.flow)].demand;
  }
}

}  // namespace dtfm::sim
