#include "simulator/network/flow_ends.hpp"

#include <algorithm>

#include "core/base/infinity.hpp"

namespace dtfm::sim {
namespace {

double clock_at(double clock, double level, double updated, double now) {
  return now > updated ? clock + level * (now - updated) : clock;
}

}  // namespace

void FlowEnds::add_link() {
  links_.emplace_back();
  date_positions_.grow(2 * links_.size());
}

void FlowEnds::start(int flow, double amount, double weight) {
  if (flows_.size() <= at(flow)) {
    flows_.resize(at(flow) + 1);
    flow_positions_.grow(flows_.size());
    date_positions_.grow(2 * flows_.size());
  }
  flows_[at(flow)] = {weight, 0, amount / weight, 0, none};
}

void FlowEnds::remove(int flow) {
  detach_flow(flow);
  flows_[at(flow)].level = 0;
}

double FlowEnds::left(const Flow& flow, double now) const {
  if (flow.link == none) return std::max(0.0, flow.left - clock_at(0, flow.level, flow.updated, now));
  const Link& link = links_[at(flow.link)];
  return std::max(0.0, flow.left - clock_at(link.clock, link.level, link.updated, now));
}

double FlowEnds::remaining(int flow, double now) const {
  return left(flows_[at(flow)], now) * flows_[at(flow)].weight;
}

double FlowEnds::end(int flow) const {
  const Flow& it = flows_[at(flow)];
  if (it.link == none) return it.level > 0 ? it.updated + it.left / it.level : infinity;
  const Link& link = links_[at(it.link)];
  return link.level > 0 ? link.updated + (it.left - link.clock) / link.level : infinity;
}

void FlowEnds::detach_flow(int number) {
  Flow& flow = flows_[at(number)];
  if (flow.link == none) return dates_.erase(id_of_flow(number), date_positions_);
  Link& link = links_[at(flow.link)];
  const bool was_next = link.flows.first().id == number;
  link.flows.erase(number, flow_positions_);
  if (was_next) reschedule_link(flow.link);
  flow.link = none;
}

void FlowEnds::hold(int number, int link_number, double now) {
  Flow& flow = flows_[at(number)];
  const double left_now = left(flow, now);
  detach_flow(number);
  Link& link = links_[at(link_number)];
  set_level(link_number, link.level, now);
  if (++link.holds_since_reset > link.flows.size()) reset_clock(link);
  flow.link = link_number;
  flow.left = link.clock + left_now;
  link.flows.set(number, flow.left, flow_positions_);
  if (link.flows.first().id == number) reschedule_link(link_number);
}

/// Called once per as many added flows as the link has, which keeps the clock's reading small enough that
/// floating-point rounding does not swallow small differences.
void FlowEnds::reset_clock(Link& link) {
  link.flows.subtract_from_keys(
      link.clock, [&](const IndexedHeap::Entry& entry) { flows_[at(entry.id)].left = entry.key; });
  link.clock = 0;
  link.holds_since_reset = 0;
}

void FlowEnds::set_own_level(int number, double level, double now) {
  Flow& flow = flows_[at(number)];
  if (flow.link == none && flow.level == level) return;
  flow.left = left(flow, now);
  detach_flow(number);
  flow.updated = now;
  flow.level = level;
  const double date = end(number);
  if (date < infinity) dates_.set(id_of_flow(number), date, date_positions_);
}

void FlowEnds::set_level(int number, double level, double now) {
  Link& link = links_[at(number)];
  link.clock = clock_at(link.clock, link.level, link.updated, now);
  link.updated = std::max(link.updated, now);
  if (link.level == level) return;
  link.level = level;
  reschedule_link(number);
}

void FlowEnds::reschedule_link(int number) {
  const Link& link = links_[at(number)];
  if (link.flows.empty() || !(link.level > 0)) return dates_.erase(id_of_link(number), date_positions_);
  dates_.set(id_of_link(number), end(link.flows.first().id), date_positions_);
}

FlowEnds::End FlowEnds::next() const {
  if (dates_.empty()) return {infinity, none};
  const auto [date, id] = dates_.first();
  return {date, id % 2 == 0 ? links_[at(id / 2)].flows.first().id : id / 2};
}

}  // namespace dtfm::sim
