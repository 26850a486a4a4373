#include "simulator/network/level_network.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/infinity.hpp"
#include "simulator/network/tolerance.hpp"

namespace dtfm::sim {
namespace {

using Use = FlowTable::Use;
using Slot = FlowTable::Slot;

bool nearly_equal(double a, double b) {
  return a == b || std::abs(a - b) <= relative_tolerance * std::min(a, b);
}

}  // namespace

int LevelNetwork::add_link(double capacity) {
  links_.push_back({capacity, infinity, false, false});
  table_.add_link();
  ends_.add_link();
  return static_cast<int>(links_.size()) - 1;
}

int LevelNetwork::add(std::span<const LinkUse> link_uses, double amount, double weight, double rate_cap) {
  const int number = table_.add(link_uses, weight);
  if (rate_caps_.size() <= at(number)) rate_caps_.resize(at(number) + 1);
  rate_caps_[at(number)] = rate_cap / weight;
  for (const Use& use : table_.uses(number)) queue(use.link);
  ends_.start(number, amount, weight);
  added_.push_back(number);
  return number;
}

void LevelNetwork::remove(int number) {
  std::erase(added_, number);
  for (const Use& use : table_.uses(number)) {
    table_.detach(use);
    if (links_[at(use.link)].level < infinity) queue(use.link);
  }
  ends_.remove(number);
  table_.release(number);
}

void LevelNetwork::queue(int link) {
  if (links_[at(link)].queued) return;
  links_[at(link)].queued = true;
  queue_.push_back(link);
}

void LevelNetwork::update_rates(double now) {
  for (std::size_t i = 0; i < queue_.size(); ++i) update_link(queue_[i]);
  queue_.clear();
  for (const int link : changed_) commit_link(link, now);
  changed_.clear();
  for (const int flow : added_) commit_flow(flow, now);
  added_.clear();
}

void LevelNetwork::update_link(int number) {
  ++update_count_;
  Link& link = links_[at(number)];
  link.queued = false;
  const double before = link.level, level = level_of(number);
  if (nearly_equal(level, before)) return;
  link.level = level;
  if (!link.changed) changed_.push_back(number);
  link.changed = true;
  notify_neighbours(number, before);
}

/// The change of this link affects another link if that one may fill up because shared flows get faster, or
/// if it is full and its level is above the lower of this link's old and new level.
void LevelNetwork::notify_neighbours(int number, double before) {
  const double level = links_[at(number)].level, lower = std::min(before, level);
  for (const Slot& slot : table_.slots(number))
    for (const Use& use : table_.uses(slot.flow)) {
      const double other = links_[at(use.link)].level;
      if (use.link == number) continue;
      if (other < infinity ? lower < other : level > before && can_fill(use.link, level)) queue(use.link);
    }
}

/// A link with a single flow fills up only if that flow exceeds its capacity at `level`.
bool LevelNetwork::can_fill(int number, double level) const {
  const std::vector<Slot>& slots = table_.slots(number);
  return slots.size() > 1 || level * slots.front().load > links_[at(number)].capacity;
}

double LevelNetwork::limit_by_other_links(int flow, int link) const {
  double limit = rate_caps_[at(flow)];
  for (const Use& use : table_.uses(flow))
    if (use.link != link) limit = std::min(limit, links_[at(use.link)].level);
  return limit;
}

/// Starts as if the link were the bottleneck of all its flows. Flows that other links limit below that level
/// leave capacity to the rest, which raises the level, so that more flows are limited elsewhere, and so on.
double LevelNetwork::level_of(int number) {
  limits_.clear();
  double load = 0, lowest = infinity;
  for (const Slot& slot : table_.slots(number)) {
    const double limit = limit_by_other_links(slot.flow, number);
    limits_.push_back({limit, slot.load});
    load += slot.load;
    lowest = std::min(lowest, limit);
  }
  const double capacity = links_[at(number)].capacity;
  double level = capacity / load;
  if (level <= lowest) return limits_.empty() ? infinity : level;
  for (std::size_t limited = 0; limited < limits_.size();) {
    const std::size_t before = limited;
    double left = capacity;
    load = 0;
    limited = 0;
    for (const Limit& limit : limits_) {
      if (limit.level < level) {
        left -= limit.load * limit.level;
        ++limited;
      } else {
        load += limit.load;
      }
    }
    if (limited <= before) return level;
    level = std::max(0.0, left) / load;
  }
  return infinity;
}

void LevelNetwork::commit_link(int number, double now) {
  Link& link = links_[at(number)];
  link.changed = false;
  if (link.level < infinity) ends_.set_level(number, link.level, now);
  for (const Slot& slot : table_.slots(number)) commit_flow(slot.flow, now);
}

/// The bottleneck of a flow is its link of lowest level, unless the flow's rate cap is lower. Among links of
/// equal level the previous bottleneck stays.
void LevelNetwork::commit_flow(int number, double now) {
  const int before = ends_.holder(number);
  double level = rate_caps_[at(number)];
  int holder = no_index;
  for (const Use& use : table_.uses(number)) {
    const double here = links_[at(use.link)].level;
    if (here > level || (here == level && use.link != before)) continue;
    level = here;
    holder = use.link;
  }
  if (holder == no_index || level == infinity)
    ends_.set_own_level(number, level, now);
  else if (holder != before)
    ends_.hold(number, holder, now);
}

}  // namespace dtfm::sim
