#include "simulator/network/fluid_network.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/infinity.hpp"
#include "simulator/network/tolerance.hpp"

namespace dtfm::sim {
namespace {

/// Far above `relative_tolerance` and still far below any difference that matters.
constexpr double frozen_tolerance = 1e-9;
/// For this many rounds only inconsistent links are opened. After that all touched links are opened, which
/// guarantees termination.
constexpr int careful_rounds = 6;

bool nearly_equal(double a, double b, double tolerance) {
  return a == b || std::abs(a - b) <= tolerance * b;
}

}  // namespace

FluidNetwork::FluidNetwork(std::span<const LinkCapacity> links, const StopFunction* stop)
    : stop_(stop), ends_(0) {
  links_.reserve(links.size());
  slots_.reserve(links.size());
  for (std::size_t i = 0; i < links.size(); ++i) {
    check_stop(i);
    add_link(links[i]);
  }
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

int FluidNetwork::new_flow(std::size_t room) {
  if (const int flow = uses_.take_free_id(room); flow != none) return flow;
  Flow made{};
  made.pool_entry = uses_.add(room);
  flows_.push_back(made);
  fill_states_.push_back(FillState::frozen);
  return static_cast<int>(flows_.size()) - 1;
}

int FluidNetwork::add(std::span<const LinkUse> link_uses, double amount, double weight, double rate_cap,
                      int own_links) {
  const int number = new_flow(link_uses.size() + index(own_links));
  Flow& flow = flows_[index(number)];
  flow.pool_entry.count = static_cast<int>(link_uses.size());
  flow.weight = weight;
  flow.rate_cap = rate_cap;
  flow.demand = 0;
  flow.loose = false;
  ends_.start(number, amount, weight);
  flow.bottleneck = none;
  flow.up_to_date = false;
  for (std::size_t i = 0; i < link_uses.size(); ++i) attach(number, link_uses[i], uses(flow)[i]);
  set_level_cap(flow);
  restarted_.push_back(number);
  return number;
}

void FluidNetwork::attach(int flow, const LinkUse& use, Use& pool_entry) {
  std::vector<Slot>& slots = slots_[index(use.link)];
  const double load = use.share * flows_[index(flow)].weight;
  pool_entry = {use.link, static_cast<int>(slots.size()), load};
  slots.push_back({flow, static_cast<int>(&pool_entry - &uses_[0]), load});
  links_[index(use.link)].load += load;
}

void FluidNetwork::detach(const Flow& flow, const Use& use) {
  std::vector<Slot>& slots = slots_[index(use.link)];
  slots[index(use.slot)] = slots.back();
  uses_[slots[index(use.slot)].use].slot = use.slot;
  slots.pop_back();
  Link& link = links_[index(use.link)];
  link.load -= use.load;
  link.total_demand -= use.load * flow.demand;
  if (flow.loose && use.link != flow.bottleneck) --link.loose;
  // Summing from scratch now and then keeps rounding errors from accumulating.
  if (++link.removed_since_sum > static_cast<int>(slots.size())) recompute_sums(use.link);
}

void FluidNetwork::remove(int number) {
  Flow& flow = flows_[index(number)];
  if (flow.up_to_date)
    affected_from(level(flow));
  else
    restarted_.erase(std::find(restarted_.begin(), restarted_.end(), number));
  for (const Use& use : uses(flow)) {
    detach(flow, use);
    if (flow.up_to_date) push_if_full(use.link);
  }
  if (flow.bottleneck != none) --links_[index(flow.bottleneck)].held;
  ends_.remove(number);
  uses_.release(number, flow.pool_entry);
}

void FluidNetwork::set_level_cap(Flow& flow) {
  flow.level_cap = flow.rate_cap / flow.weight;
  for (const Use& use : uses(flow)) {
    const Link& link = links_[index(use.link)];
    if (link.fatpipe) flow.level_cap = std::min(flow.level_cap, link.capacity / use.load);
  }
}

void FluidNetwork::change_rate_cap(int number) {
  Flow& flow = flows_[index(number)];
  set_level_cap(flow);
  if (!flow.up_to_date) return;
  affected_from(level(flow));
  for (const Use& use : uses(flow)) push_if_full(use.link);
  flow.up_to_date = false;
  restarted_.push_back(number);
}

void FluidNetwork::set_capacity(int number, double capacity) {
  Link& link = links_[index(number)];
  link.capacity = capacity;
  if (link.fatpipe) {
    for (const Slot& slot : slots_[index(number)]) change_rate_cap(slot.flow);
    return;
  }
  if (link.level == infinity && link.total_demand < capacity * (1 - relative_tolerance)) return;
  affected_from(link.level);
  affected_from(capacity / link.load);
  changed_links_.push_back(number);
}

void FluidNetwork::push_if_full(int link) {
  if (links_[index(link)].level < infinity) changed_links_.push_back(link);
}

void FluidNetwork::affected_from(double level) {
  affected_from_ = std::min(affected_from_, level * (1 - frozen_tolerance));
}

void FluidNetwork::update_rates(double now) {
  if (restarted_.empty() && changed_links_.empty()) return;
  update_independent(now);
  if (restarted_.empty() && changed_links_.empty()) {
    affected_from_ = infinity;
    return;
  }
  begin();
  for (int round = 1;; ++round) {
    fill();
    if (!open_inconsistent_links(round > careful_rounds)) break;
  }
  commit(now);
}

/// Unfreezes the new flows and the affected flows on changed links. A link of capacity C cannot limit any of
/// its flows below the level C ÷ load, which bounds the affected levels from below.
void FluidNetwork::begin() {
  for (const int flow : restarted_) {
    affected_from(flows_[index(flow)].level_cap);
    if (flows_[index(flow)].bottleneck != none) affected_from(level(flows_[index(flow)]));
    for (const Use& use : uses(flows_[index(flow)])) {
      const Link& link = links_[index(use.link)];
      if (!link.fatpipe) affected_from(link.capacity / link.load);
      push_if_full(use.link);
    }
  }
  for (std::size_t i = 0; i < restarted_.size(); ++i) {
    check_stop(i);
    unfreeze_flow(restarted_[i]);
  }
  for (std::size_t i = 0; i < changed_links_.size(); ++i) {
    check_stop(i);
    open(changed_links_[i]);
  }
}

void FluidNetwork::touch(int number) {
  Link& link = links_[index(number)];
  if (link.touched) return;
  link.touched = true;
  link.frozen = link.total_demand;
  if (link.independent || link.loose > 0) {
    link.frozen = 0;
    for (const Slot& slot : slots_[index(number)]) link.frozen += slot.load * level(flows_[index(slot.flow)]);
  }
  link.rising_load = 0;
  link.rising = link.held_rising = 0;
  touched_.push_back(number);
}

void FluidNetwork::unfreeze_flow(int number) {
  FillState& fill_state = fill_states_[index(number)];
  if (fill_state != FillState::frozen) return;
  fill_state = FillState::rising;
  unfrozen_.push_back(number);
  Flow& flow = flows_[index(number)];
  for (const Use& use : uses(flow)) {
    Link& link = links_[index(use.link)];
    if (link.fatpipe) continue;
    touch(use.link);
    link.frozen -= use.load * level(flow);
    link.rising_load += use.load;
    ++link.rising;
  }
  if (flow.bottleneck != none) ++links_[index(flow.bottleneck)].held_rising;
}

/// Unfreezes those flows of a link that can change. Sums the frozen flows from scratch, so that rounding
/// errors do not accumulate.
void FluidNetwork::open(int number) {
  touch(number);
  Link& link = links_[index(number)];
  if (link.open) return;
  link.open = true;
  double frozen = 0, load = 0;
  for (const Slot& slot : slots_[index(number)]) {
    load += slot.load;
    const double level_now = level(flows_[index(slot.flow)]);
    if (level_now >= affected_from_) unfreeze_flow(slot.flow);
    if (fill_states_[index(slot.flow)] == FillState::frozen) frozen += slot.load * level_now;
  }
  link.load = load;
  link.frozen = frozen;
}

/// Progressive filling of the capacity that frozen flows leave. The level at which a link saturates can only
/// grow when flows stop, so an outdated heap entry is pushed again with its new level.
void FluidNetwork::fill() {
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.level != b.level ? a.level > b.level : a.id > b.id;
  };
  heap_.clear();
  for (const int number : touched_) {
    Link& link = links_[index(number)];
    link.left = std::max(0.0, link.capacity - link.frozen);
    link.left_load = link.rising_load;
    link.left_rising = link.rising;
    link.next_level = infinity;
    if (link.rising > 0) heap_.push_back({link.left / link.left_load, number});
  }
  for (const int number : unfrozen_) {
    fill_states_[index(number)] = FillState::rising;
    const double rate_cap = flows_[index(number)].level_cap;
    if (rate_cap < infinity) heap_.push_back({rate_cap, ~number});
  }
  std::make_heap(heap_.begin(), heap_.end(), later);
  stopped_ = 0;
  double level = 0;
  for (std::size_t step = 0; stopped_ < unfrozen_.size() && !heap_.empty(); ++step) {
    check_stop(step);
    std::pop_heap(heap_.begin(), heap_.end(), later);
    Candidate& top = heap_.back();
    if (top.id < 0) {
      level = nearly_equal(top.level, level, relative_tolerance) ? level : top.level;
      if (fill_states_[index(~top.id)] == FillState::rising) stop(~top.id, level, none);
      heap_.pop_back();
      continue;
    }
    const Link& link = links_[index(top.id)];
    const double here = link.left_rising > 0 ? link.left / link.left_load : infinity;
    if (link.left_rising == 0) {
      heap_.pop_back();
    } else if (here > top.level * (1 + relative_tolerance)) {
      top.level = here;
      std::push_heap(heap_.begin(), heap_.end(), later);
    } else {
      level = nearly_equal(here, level, relative_tolerance) ? level : std::max(level, here);
      const int full = top.id;
      heap_.pop_back();
      stop_all_on(full, level);
    }
  }
  for (std::size_t i = 0; stopped_ < unfrozen_.size(); ++i)
    if (fill_states_[index(unfrozen_[i])] == FillState::rising) stop(unfrozen_[i], infinity, none);
}

void FluidNetwork::stop(int number, double level, int bottleneck) {
  fill_states_[index(number)] = FillState::stopped;
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
    if (fill_states_[index(slot.flow)] == FillState::rising) stop(slot.flow, level, number);
}

/// Whether frozen flows on this link can no longer stay frozen: either the link is the bottleneck of some of
/// them at a level that has changed, or it is now a bottleneck at a level below that of some of them.
bool FluidNetwork::is_inconsistent(int number) const {
  const Link& link = links_[index(number)];
  const std::vector<Slot>& slots = slots_[index(number)];
  if (link.held > link.held_rising) return !nearly_equal(link.next_level, link.level, frozen_tolerance);
  if (link.next_level == infinity) return false;
  const double max_level = link.next_level * (1 + frozen_tolerance);
  return std::any_of(slots.begin(), slots.end(), [&](const Slot& slot) {
    return fill_states_[index(slot.flow)] == FillState::frozen && level(flows_[index(slot.flow)]) > max_level;
  });
}

bool FluidNetwork::open_inconsistent_links(bool all) {
  bool opened = false;
  const std::size_t filled = touched_.size();
  for (std::size_t i = 0; i < (all ? touched_.size() : filled); ++i) {
    check_stop(i);
    const int link = touched_[i];
    if (links_[index(link)].open || index(links_[index(link)].rising) == slots_[index(link)].size()) continue;
    if (!all && !is_inconsistent(link)) continue;
    open(link);
    opened = true;
  }
  return opened;
}

void FluidNetwork::commit(double now) {
  for (const int number : unfrozen_) tighten(flows_[index(number)], 0);
  for (const int number : touched_) commit_link(number, now);
  for (std::size_t i = 0; i < unfrozen_.size(); ++i) {
    check_stop(i);
    commit_flow(unfrozen_[i], now);
  }
  for (std::size_t i = 0; i < touched_.size(); ++i) {
    check_stop(i);
    make_holders_dependent(touched_[i]);
  }
  unfrozen_.clear();
  touched_.clear();
  restarted_.clear();
  changed_links_.clear();
  affected_from_ = infinity;
}

void FluidNetwork::commit_link(int number, double now) {
  Link& link = links_[index(number)];
  link.held -= link.held_rising;
  if (link.held == 0) {
    link.level = link.next_level;
    link.independent = false;
    link.dependents.clear();
  }
  if (link.level < infinity && !nearly_equal(link.level, ends_.level_of_link(number), relative_tolerance))
    ends_.set_level(number, link.level, now);
  if (!link.independent && link.loose == 0) link.total_demand = link.frozen;
  link.touched = link.open = false;
}

void FluidNetwork::commit_flow(int number, double now) {
  Flow& flow = flows_[index(number)];
  flow.bottleneck = flow.next_bottleneck;
  if (flow.bottleneck != none) {
    Link& link = links_[index(flow.bottleneck)];
    ++link.held;
    set_demand(flow, link.level);  // equals the level of frozen flows with this bottleneck, if there are any
    if (link.independent) {
      loosen(flow);
      link.min_demand = std::min(link.min_demand, flow.demand);
    }
    if (ends_.holder(number) != flow.bottleneck) ends_.hold(number, flow.bottleneck, now);
  } else {
    set_demand(flow, flow.next_level);
    ends_.set_own_level(number, flow.next_level, now);
  }
  flow.up_to_date = true;
  fill_states_[index(number)] = FillState::frozen;
}

}  // namespace dtfm::sim
