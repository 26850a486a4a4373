#include "simulator/network/fluid_network.hpp"

#include <algorithm>
#include <cmath>

namespace dtfm::sim {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int none = -1;
/// Levels that differ by less are one level: far above rounding, far below what anybody can see.
constexpr double same = 1e-12, same_for_standing = 1e-9;
/// So often only the links that stood wrongly are opened; then all that are touched, so that it ends.
constexpr int careful_rounds = 6;

bool is_same(double a, double b, double tolerance) {
  return a == b || std::abs(a - b) <= tolerance * b;
}

}  // namespace

FluidNetwork::FluidNetwork(std::span<const LinkCapacity> links) : ends_(0) {
  for (const LinkCapacity& link : links) add_link(link);
}

int FluidNetwork::add_link(const LinkCapacity& link) {
  Link made{};
  made.capacity = link.capacity;
  made.level = infinity;
  made.fatpipe = link.sharing == Sharing::fatpipe;
  links_.push_back(made);
  slots_.emplace_back();
  ends_.add_link();
  return static_cast<int>(links_.size()) - 1;
}

int FluidNetwork::new_flow(std::size_t use_count) {
  if (const int flow = uses_.take_number(use_count); flow != none) return flow;
  Flow made{};
  made.place = uses_.add(use_count);
  flows_.push_back(made);
  marks_.push_back(Mark::standing);
  return static_cast<int>(flows_.size()) - 1;
}

int FluidNetwork::add(std::span<const LinkUse> link_uses, double amount, double weight, double ceiling) {
  const int number = new_flow(link_uses.size());
  Flow& flow = flows_[index(number)];
  flow.weight = weight;
  flow.ceiling = ceiling;
  flow.claim = 0;
  flow.loose = false;
  ends_.start(number, amount, weight);
  flow.bottleneck = none;
  flow.settled = false;
  for (std::size_t i = 0; i < link_uses.size(); ++i) attach(number, link_uses[i], uses(flow)[i]);
  set_ceiling_level(flow);
  restarted_.push_back(number);
  return number;
}

void FluidNetwork::attach(int flow, const LinkUse& use, Use& place) {
  std::vector<Slot>& slots = slots_[index(use.link)];
  const double load = use.share * flows_[index(flow)].weight;
  place = {use.link, static_cast<int>(slots.size()), load};
  slots.push_back({flow, static_cast<int>(&place - &uses_[0]), load});
  links_[index(use.link)].load += load;
}

void FluidNetwork::detach(const Flow& flow, const Use& use) {
  std::vector<Slot>& slots = slots_[index(use.link)];
  slots[index(use.slot)] = slots.back();
  uses_[slots[index(use.slot)].use].slot = use.slot;
  slots.pop_back();
  Link& link = links_[index(use.link)];
  link.load -= use.load;
  link.claimed -= use.load * flow.claim;
  if (flow.loose && use.link != flow.bottleneck) --link.loose;
  // So that rounding does not pile up.
  if (++link.left_since > static_cast<int>(slots.size())) add_up(use.link);
}

void FluidNetwork::remove(int number) {
  Flow& flow = flows_[index(number)];
  if (flow.settled)
    felt_from(level(flow));
  else
    restarted_.erase(std::find(restarted_.begin(), restarted_.end(), number));
  for (const Use& use : uses(flow)) {
    detach(flow, use);
    if (flow.settled) push_if_full(use.link);
  }
  if (flow.bottleneck != none) --links_[index(flow.bottleneck)].held;
  ends_.remove(number);
  uses_.give_back(number, flow.place);
}

void FluidNetwork::set_ceiling_level(Flow& flow) {
  flow.ceiling_level = flow.ceiling / flow.weight;
  for (const Use& use : uses(flow)) {
    const Link& link = links_[index(use.link)];
    if (link.fatpipe) flow.ceiling_level = std::min(flow.ceiling_level, link.capacity / use.load);
  }
}

void FluidNetwork::change_ceiling(int number) {
  Flow& flow = flows_[index(number)];
  set_ceiling_level(flow);
  if (!flow.settled) return;
  felt_from(level(flow));
  for (const Use& use : uses(flow)) push_if_full(use.link);
  flow.settled = false;
  restarted_.push_back(number);
}

void FluidNetwork::set_capacity(int number, double capacity) {
  Link& link = links_[index(number)];
  link.capacity = capacity;
  if (link.fatpipe) {
    for (const Slot& slot : slots_[index(number)]) change_ceiling(slot.flow);
    return;
  }
  if (link.level == infinity && link.claimed < capacity * (1 - same)) return;
  felt_from(link.level);
  felt_from(capacity / link.load);
  changed_links_.push_back(number);
}

void FluidNetwork::push_if_full(int link) {
  if (links_[index(link)].level < infinity) changed_links_.push_back(link);
}

void FluidNetwork::felt_from(double level) {
  felt_from_ = std::min(felt_from_, level * (1 - same_for_standing));
}

void FluidNetwork::settle(double now) {
  if (restarted_.empty() && changed_links_.empty()) return;
  settle_independent(now);
  if (restarted_.empty() && changed_links_.empty()) {
    felt_from_ = infinity;
    return;
  }
  begin();
  for (int round = 1;; ++round) {
    fill();
    if (!open_wrong_links(round > careful_rounds)) break;
  }
  commit(now);
}

/// Frees the flows that are new and those on links that are not what they were. A link with n flows holds
/// none of them below 1/n of its capacity.
void FluidNetwork::begin() {
  for (const int flow : restarted_) {
    felt_from(flows_[index(flow)].ceiling_level);
    if (flows_[index(flow)].bottleneck != none) felt_from(level(flows_[index(flow)]));
    for (const Use& use : uses(flows_[index(flow)])) {
      const Link& link = links_[index(use.link)];
      if (!link.fatpipe) felt_from(link.capacity / link.load);
      push_if_full(use.link);
    }
  }
  for (const int flow : restarted_) free_flow(flow);
  for (const int link : changed_links_) open(link);
}

void FluidNetwork::touch(int number) {
  Link& link = links_[index(number)];
  if (link.touched) return;
  link.touched = true;
  link.standing = link.claimed;
  if (link.independent || link.loose > 0) {
    link.standing = 0;
    for (const Slot& slot : slots_[index(number)])
      link.standing += slot.load * level(flows_[index(slot.flow)]);
  }
  link.rising_load = 0;
  link.rising = link.held_rising = 0;
  touched_.push_back(number);
}

void FluidNetwork::free_flow(int number) {
  Mark& mark = marks_[index(number)];
  if (mark != Mark::standing) return;
  mark = Mark::rising;
  free_.push_back(number);
  Flow& flow = flows_[index(number)];
  for (const Use& use : uses(flow)) {
    Link& link = links_[index(use.link)];
    if (link.fatpipe) continue;
    touch(use.link);
    link.standing -= use.load * level(flow);
    link.rising_load += use.load;
    ++link.rising;
  }
  if (flow.bottleneck != none) ++links_[index(flow.bottleneck)].held_rising;
}

/// Frees the flows of a link that can change, and adds up anew what stands, so that rounding does not pile
/// up.
void FluidNetwork::open(int number) {
  touch(number);
  Link& link = links_[index(number)];
  if (link.open) return;
  link.open = true;
  double standing = 0, load = 0;
  for (const Slot& slot : slots_[index(number)]) {
    load += slot.load;
    const double level_now = level(flows_[index(slot.flow)]);
    if (level_now >= felt_from_) free_flow(slot.flow);
    if (marks_[index(slot.flow)] == Mark::standing) standing += slot.load * level_now;
  }
  link.load = load;
  link.standing = standing;
}

/// Progressive filling of what the standing flows leave. A link's level only grows while others stop, so a
/// heap entry that is out of date goes back with its new level.
void FluidNetwork::fill() {
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.level != b.level ? a.level > b.level : a.id > b.id;
  };
  heap_.clear();
  for (const int number : touched_) {
    Link& link = links_[index(number)];
    link.left = std::max(0.0, link.capacity - link.standing);
    link.left_load = link.rising_load;
    link.left_rising = link.rising;
    link.next_level = infinity;
    if (link.rising > 0) heap_.push_back({link.left / link.left_load, number});
  }
  for (const int number : free_) {
    marks_[index(number)] = Mark::rising;
    const double ceiling = flows_[index(number)].ceiling_level;
    if (ceiling < infinity) heap_.push_back({ceiling, ~number});
  }
  std::make_heap(heap_.begin(), heap_.end(), later);
  stopped_ = 0;
  double level = 0;
  while (stopped_ < free_.size() && !heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    Candidate& top = heap_.back();
    if (top.id < 0) {
      level = is_same(top.level, level, same) ? level : top.level;
      if (marks_[index(~top.id)] == Mark::rising) stop(~top.id, level, none);
      heap_.pop_back();
      continue;
    }
    const Link& link = links_[index(top.id)];
    const double here = link.left_rising > 0 ? link.left / link.left_load : infinity;
    if (link.left_rising == 0) {
      heap_.pop_back();
    } else if (here > top.level * (1 + same)) {
      top.level = here;
      std::push_heap(heap_.begin(), heap_.end(), later);
    } else {
      level = is_same(here, level, same) ? level : std::max(level, here);
      const int full = top.id;
      heap_.pop_back();
      stop_all_on(full, level);
    }
  }
  for (std::size_t i = 0; stopped_ < free_.size(); ++i)
    if (marks_[index(free_[i])] == Mark::rising) stop(free_[i], infinity, none);
}

void FluidNetwork::stop(int number, double level, int bottleneck) {
  marks_[index(number)] = Mark::stopped;
  ++stopped_;
  Flow& flow = flows_[index(number)];
  flow.next_level = level;
  flow.next_bottleneck = bottleneck;
  for (const Use& use : uses(flow)) {
    Link& link = links_[index(use.link)];
    link.left = std::max(0.0, link.left - use.load * level);
    link.left_load -= use.load;
    --link.left_rising;
  }
}

void FluidNetwork::stop_all_on(int number, double level) {
  links_[index(number)].next_level = level;
  for (const Slot& slot : slots_[index(number)])
    if (marks_[index(slot.flow)] == Mark::rising) stop(slot.flow, level, number);
}

/// Whether flows that stand on this link cannot stand any longer: it holds some of them at a level that is no
/// longer its own, or now holds others at a level below theirs.
bool FluidNetwork::stands_wrongly(int number) const {
  const Link& link = links_[index(number)];
  const std::vector<Slot>& slots = slots_[index(number)];
  if (link.held > link.held_rising) return !is_same(link.next_level, link.level, same_for_standing);
  if (link.next_level == infinity) return false;
  const double most = link.next_level * (1 + same_for_standing);
  return std::any_of(slots.begin(), slots.end(), [&](const Slot& slot) {
    return marks_[index(slot.flow)] == Mark::standing && level(flows_[index(slot.flow)]) > most;
  });
}

bool FluidNetwork::open_wrong_links(bool all) {
  bool opened = false;
  const std::size_t filled = touched_.size();
  for (std::size_t i = 0; i < (all ? touched_.size() : filled); ++i) {
    const int link = touched_[i];
    if (links_[index(link)].open || index(links_[index(link)].rising) == slots_[index(link)].size()) continue;
    if (!all && !stands_wrongly(link)) continue;
    open(link);
    opened = true;
  }
  return opened;
}

void FluidNetwork::commit(double now) {
  for (const int number : free_) tighten(flows_[index(number)], 0);
  for (const int number : touched_) commit_link(number, now);
  for (const int number : free_) commit_flow(number, now);
  for (const int number : touched_) bind_holders(number);
  free_.clear();
  touched_.clear();
  restarted_.clear();
  changed_links_.clear();
  felt_from_ = infinity;
}

void FluidNetwork::commit_link(int number, double now) {
  Link& link = links_[index(number)];
  link.held -= link.held_rising;
  if (link.held == 0) {
    link.level = link.next_level;
    link.independent = false;
    link.dependents.clear();
  }
  if (link.level < infinity && !is_same(link.level, ends_.level_of_link(number), same))
    ends_.set_level(number, link.level, now);
  if (!link.independent && link.loose == 0) link.claimed = link.standing;
  link.touched = link.open = false;
}

void FluidNetwork::commit_flow(int number, double now) {
  Flow& flow = flows_[index(number)];
  flow.bottleneck = flow.next_bottleneck;
  if (flow.bottleneck != none) {
    Link& link = links_[index(flow.bottleneck)];
    ++link.held;
    set_claim(flow, link.level);  // that of the standing flows, if it holds some
    if (link.independent) {
      loosen(flow);
      link.roof = std::min(link.roof, flow.claim);
    }
    if (ends_.holder(number) != flow.bottleneck) ends_.hold(number, flow.bottleneck, now);
  } else {
    set_claim(flow, flow.next_level);
    ends_.set_alone(number, flow.next_level, now);
  }
  flow.settled = true;
  marks_[index(number)] = Mark::standing;
}

}  // namespace dtfm::sim
