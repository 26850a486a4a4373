// What changes on a single link, and nowhere else.
//
// A link is independent if all its flows can go up and down with its level unfelt: no other link of theirs
// holds anybody, and each has room for all its flows at what they claim, which is above what they have. While
// the level stays below all claims, one number changes, however many flows there are.
#include <algorithm>
#include <cmath>

#include "simulator/network/fluid_network.hpp"

namespace dtfm::sim {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int none = -1;
constexpr double same = 1e-12;  // rounding
/// So much above the level flows claim, where there is room: as n flows leave one by one, they claim anew
/// log(n) ÷ log(headroom) times.
constexpr double headroom = 1.25;
/// So often, on the average, the levels of links that depend on one another are corrected one by one; what
/// has not come to rest by then is solved at once.
constexpr std::size_t rounds = 8;

}  // namespace

/// Settles the changes for which this is enough, and leaves the others.
void FluidNetwork::settle_independent(double now) {
  shift_all(now);
  std::erase_if(restarted_, [&](int flow) { return join(flow, now); });
  shift_all(now);
}

void FluidNetwork::shift_all(double now) {
  const std::size_t enough = rounds * changed_links_.size();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < changed_links_.size(); ++i)
    if (const int link = changed_links_[i]; i >= enough || !shift(link, now)) changed_links_[kept++] = link;
  changed_links_.resize(kept);
}

/// Whether the flow has not been settled, nor been held by the link before.
bool FluidNetwork::is_new(const Slot& slot, int link) const {
  const Flow& flow = flows_[index(slot.flow)];
  return !flow.settled && flow.bottleneck != link;
}

FluidNetwork::Division FluidNetwork::division(int number) const {
  const Link& link = links_[index(number)];
  const std::vector<Slot>& slots = slots_[index(number)];
  Division result;
  // Mostly it holds all its flows, or all but the last that came: nothing has to be added up.
  result.unsettled = !slots.empty() && is_new(slots.back(), number) ? 1 : 0;
  if (index(link.held + result.unsettled) == slots.size()) {
    result.load = link.load;
    return result;
  }
  result.unsettled = 0;
  for (std::size_t i = slots.size(); i-- > 0 && result.unsettled <= 1;) {  // the new are the last
    const Slot& slot = slots[i];
    const Flow& flow = flows_[index(slot.flow)];
    if (flow.bottleneck == number || !flow.settled) {
      result.load += slot.load;
      result.unsettled += flow.settled ? 0 : 1;
    } else {
      result.passing += slot.load * level(flow);
      result.most = std::max(result.most, level(flow));
    }
  }
  return result;
}

/// What a link has for the flows that it holds, or how many those are, has changed.
bool FluidNetwork::shift(int number, double now) {
  Link& link = links_[index(number)];
  if (link.held == 0) {
    if (link.claimed > link.capacity) return false;
    link.level = infinity;
    link.independent = false;
    link.dependents.clear();
    return true;
  }
  const Division division = this->division(number);
  const double level = (link.capacity - division.passing) / division.load;
  if (division.unsettled > 0 || !(level >= division.most)) return false;
  if (std::abs(level - link.level) <= same * level) return true;
  if ((!link.independent || level > link.roof) && !make_independent(number, level)) return false;
  move(number, level, now);
  return true;
}

/// A new flow that no other new one meets.
bool FluidNetwork::join(int number, double now) {
  Flow& flow = flows_[index(number)];
  if (flow.bottleneck != none || flow.claim > 0) return false;
  int holder = none;
  double level = flow.ceiling_level, most = 0;
  for (const Use& use : uses(flow)) {
    const Link& link = links_[index(use.link)];
    if (link.fatpipe) continue;
    const Division division = this->division(use.link);
    if (division.unsettled > 1) return false;
    const double here = (link.capacity - division.passing) / division.load;
    if (here >= level) continue;
    level = here;
    most = division.most;
    holder = use.link;
  }
  if (holder == none || !(level >= most)) return false;
  Link& link = links_[index(holder)];
  const bool first = link.held == 0, others_claim = !first && (!link.independent || level > link.roof);
  flow.bottleneck = holder;
  if (!claim(flow, level, first || others_claim ? level * headroom : link.roof) ||
      (others_claim && !make_independent(holder, level))) {
    tighten(flow, 0);
    flow.bottleneck = none;
    return false;
  }
  link.roof = first ? flow.claim : std::min(link.roof, flow.claim);
  link.independent = flow.settled = true;
  ++link.held;
  for (const Use& use : uses(flow))
    if (use.link != holder && links_[index(use.link)].held > 0) add_dependent(holder, use.link);
  if (first) add_to_holders(holder);
  move(holder, level, now);
  ends_.hold(number, holder, now);
  return true;
}

void FluidNetwork::move(int number, double level, double now) {
  Link& link = links_[index(number)];
  link.level = level;
  ends_.set_level(number, level, now);
  std::erase_if(link.dependents, [&](int dependent) { return links_[index(dependent)].held == 0; });
  for (const int dependent : link.dependents) push_changed(dependent);
}

void FluidNetwork::push_changed(int number) {
  const Link& link = links_[index(number)];
  felt_from(link.level);
  felt_from(link.capacity / link.load);
  changed_links_.push_back(number);
}

void FluidNetwork::add_dependent(int number, int dependent) {
  std::vector<int>& dependents = links_[index(number)].dependents;
  if (std::find(dependents.begin(), dependents.end(), dependent) == dependents.end())
    dependents.push_back(dependent);
}

/// Makes a full link a dependent of those that hold others of its flows.
void FluidNetwork::add_to_holders(int number) {
  for (const Slot& slot : slots_[index(number)])
    if (const Flow& flow = flows_[index(slot.flow)]; flow.loose && flow.bottleneck != number)
      add_dependent(flow.bottleneck, number);
}

/// Lets the flows that the link holds claim at least `level`.
bool FluidNetwork::make_independent(int number, double level) {
  Link& link = links_[index(number)];
  const double least = std::max(level, link.level);
  link.roof = infinity;
  for (const Slot& slot : slots_[index(number)]) {
    Flow& flow = flows_[index(slot.flow)];
    if (!flow.settled || flow.bottleneck != number) continue;
    if (!claim(flow, least, least * headroom)) {
      bind(number);
      return false;
    }
    link.roof = std::min(link.roof, flow.claim);
    for (const Use& use : uses(flow))
      if (use.link != number && links_[index(use.link)].held > 0) add_dependent(number, use.link);
  }
  link.independent = true;
  return true;
}

/// Whether the links of a flow have room for it at `level`; then it claims what there is up to `most`.
bool FluidNetwork::claim(Flow& flow, double level, double most) {
  double room = std::min(most, flow.ceiling_level);
  for (const Use& use : uses(flow)) {
    const Link& link = links_[index(use.link)];
    if (use.link == flow.bottleneck || link.fatpipe) continue;
    if (link.held > 0) continue;
    room = std::min(room, flow.claim + (link.capacity - link.claimed) / use.load);
  }
  if (room < level) return false;
  const double before = flow.claim;
  set_claim(flow, room);
  for (const Use& use : uses(flow)) {  // it may pass one more than once
    const Link& link = links_[index(use.link)];
    if (use.link == flow.bottleneck || link.fatpipe || link.held > 0 ||
        link.claimed <= link.capacity * (1 + same))
      continue;
    set_claim(flow, before);
    return false;
  }
  loosen(flow);
  return true;
}

void FluidNetwork::set_claim(Flow& flow, double level) {
  for (const Use& use : uses(flow)) links_[index(use.link)].claimed += use.load * (level - flow.claim);
  flow.claim = level;
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
  set_claim(flow, level);
}

/// Ends the independence of a link.
void FluidNetwork::bind(int number) {
  Link& link = links_[index(number)];
  link.independent = false;
  link.dependents.clear();
  for (const Slot& slot : slots_[index(number)])
    if (Flow& flow = flows_[index(slot.flow)]; flow.loose && flow.bottleneck == number)
      tighten(flow, link.level);
}

/// Where a link has become full, others feel it; where it has no room for all claims, they cannot be
/// independent.
void FluidNetwork::bind_holders(int number) {
  const Link& link = links_[index(number)];
  if (link.loose == 0) return;
  if (link.held > 0) return add_to_holders(number);
  if (link.claimed <= link.capacity * (1 + same)) return;
  for (const Slot& slot : slots_[index(number)])
    if (const Flow& flow = flows_[index(slot.flow)]; flow.loose) bind(flow.bottleneck);
}

void FluidNetwork::add_up(int number) {
  Link& link = links_[index(number)];
  link.load = link.claimed = 0;
  link.left_since = 0;
  for (const Slot& slot : slots_[index(number)]) {
    link.load += slot.load;
    link.claimed += slot.load * flows_[index(slot.flow)].claim;
  }
}

}  // namespace dtfm::sim
