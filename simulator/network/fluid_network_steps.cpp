// What changes on a single link, and nowhere else.
//
// A link is independent if all its flows can go up and down with its level unfelt: no other link of theirs
// holds anybody, and each has room for all its flows at what they claim, which is above what they have. While
// the level stays below all claims, one number changes, however many flows there are.
#include <algorithm>

#include "simulator/network/fluid_network.hpp"

namespace dtfm {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int none = -1;
constexpr double same = 1e-12;  // rounding
/// So much above the level flows claim, where there is room: as n flows leave one by one, they claim anew
/// log(n) ÷ log(headroom) times.
constexpr double headroom = 1.25;

}  // namespace

/// Settles the changes for which this is enough, and leaves the others.
void FluidNetwork::settle_independent(double now) {
  std::erase_if(changed_links_, [&](int link) { return shift(link, now); });
  std::erase_if(restarted_, [&](int flow) { return join(flow, now); });
}

/// Flows have left a link, or it has another capacity.
bool FluidNetwork::shift(int number, double now) {
  Link& link = links_[index(number)];
  if (index(link.held) != slots_[index(number)].size()) return false;
  if (link.held == 0) {
    link.level = infinity;
    link.independent = false;
    return true;
  }
  const double level = link.capacity / link.load;
  if ((!link.independent || level > link.roof) && !make_independent(number, level)) return false;
  link.level = level;
  ends_.set_level(number, level, now);
  return true;
}

/// A new flow, on a link that holds all others, or where there are none.
bool FluidNetwork::join(int number, double now) {
  Flow& flow = flows_[index(number)];
  if (flow.bottleneck != none || flow.claim > 0) return false;
  int holder = none;
  double level = flow.ceiling_level;
  for (const Use& use : uses(flow)) {
    const Link& link = links_[index(use.link)];
    if (link.fatpipe || link.capacity / link.load > level) continue;
    level = link.capacity / link.load;
    holder = use.link;
  }
  if (holder == none) return false;
  Link& link = links_[index(holder)];
  if (index(link.held) + 1 != slots_[index(holder)].size()) return false;
  const bool others_claim = link.held > 0 && (!link.independent || level > link.roof);
  const double most = link.held > 0 && !others_claim ? link.roof : level * headroom;
  flow.bottleneck = holder;
  if (!claim(flow, level, most) || (others_claim && !make_independent(holder, level))) {
    tighten(flow, 0);
    flow.bottleneck = none;
    return false;
  }
  link.roof = link.held > 0 ? std::min(link.roof, flow.claim) : flow.claim;
  link.independent = flow.settled = true;
  ++link.held;
  link.level = level;
  ends_.set_level(holder, level, now);
  ends_.hold(number, holder, now);
  return true;
}

/// Lets the flows that the link holds claim at least `level`.
bool FluidNetwork::make_independent(int number, double level) {
  Link& link = links_[index(number)];
  const double least = std::max(level, link.level);
  link.roof = infinity;
  for (const Slot& slot : slots_[index(number)]) {
    Flow& flow = flows_[index(slot.flow)];
    if (!flow.settled) continue;
    if (!claim(flow, least, least * headroom)) {
      bind(number);
      return false;
    }
    link.roof = std::min(link.roof, flow.claim);
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
    if (link.held > 0) return false;
    room = std::min(room, flow.claim + (link.capacity - link.claimed) / use.load);
  }
  if (room < level) return false;
  const double before = flow.claim;
  set_claim(flow, room);
  for (const Use& use : uses(flow)) {  // it may pass one more than once
    const Link& link = links_[index(use.link)];
    if (use.link == flow.bottleneck || link.fatpipe || link.claimed <= link.capacity * (1 + same)) continue;
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
  for (const Slot& slot : slots_[index(number)])
    if (Flow& flow = flows_[index(slot.flow)]; flow.loose && flow.bottleneck == number)
      tighten(flow, link.level);
}

/// Where a link is full, or has no room for all claims, others cannot be independent.
void FluidNetwork::bind_holders(int number) {
  const Link& link = links_[index(number)];
  if (link.loose == 0 || (link.held == 0 && link.claimed <= link.capacity * (1 + same))) return;
  for (const Slot& slot : slots_[index(number)])
    if (const Flow& flow = flows_[index(slot.flow)]; flow.loose && flow.bottleneck != number)
      bind(flow.bottleneck);
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

}  // namespace dtfm
