#include "simulator/graph/graph_network.hpp"

#include <algorithm>
#include <numeric>

namespace dtfm::sim {
namespace {

/// Share of a flow's rate that its acknowledgements use on the reverse path (Velho et al., as in SimGrid).
constexpr double acknowledgement_share = 0.05;
/// Seconds; a route without latency counts like 200 m of fibre, so that its weight is finite and still larger
/// than that of any longer route.
constexpr double min_penalty = 1e-6;

std::vector<int> links_of_hosts(const TaskGraph& graph) {
  std::vector<bool> moves(graph.hosts.size());
  for (std::size_t i = 0; i < moves.size(); ++i)
    moves[i] = graph.hosts[i].sharing == HostSharing::processor_sharing;
  for (const Profile& profile : graph.profiles)
    if (profile.quantity == Profile::Quantity::speed)
      for (const Profile::Target& target : profile.targets) moves[at(target.index)] = true;
  std::vector<int> result(graph.hosts.size(), no_index);
  int link = static_cast<int>(graph.links.size());
  for (std::size_t i = 0; i < moves.size(); ++i)
    if (moves[i]) result[i] = link++;
  return result;
}

std::vector<LinkCapacity> capacities(const TaskGraph& graph, const std::vector<int>& host_links) {
  std::vector<LinkCapacity> result;
  for (const GraphLink& link : graph.links)
    result.push_back({link.bandwidth * graph.model.bandwidth_factor, link.sharing});
  for (std::size_t i = 0; i < host_links.size(); ++i)
    if (host_links[i] != no_index) result.push_back({graph.hosts[i].speed});
  return result;
}

}  // namespace

GraphNetwork::GraphNetwork(const TaskGraph& graph, const StopFunction& stop)
    : graph_(graph),
      host_links_(links_of_hosts(graph)),
      links_down_(graph.links.size()),
      hosts_down_(graph.hosts.size()),
      fluid_(capacities(graph, host_links_), &stop) {
  for (const GraphLink& link : graph.links) {
    bandwidth_.push_back(link.bandwidth);
    latency_.push_back(link.latency);
  }
  first_use_.push_back(0);
  for (std::size_t i = 0; i < graph.routes.size(); ++i) {
    throw_if_stopped(stop, i);
    add_uses(graph.routes[i]);
  }
  for (const int link : host_links_) {
    if (link != no_index) uses_.push_back({link});
    first_use_.push_back(static_cast<int>(uses_.size()));
  }
}

void GraphNetwork::add_uses(const Route& route) {
  for (std::size_t i = 0; i < route.links.size(); ++i)
    add_use({route.links[i], route.flow_counts.empty() ? 1 : route.flow_counts[i]});
  if (graph_.model.cross_traffic)
    for (const int link : route.reverse) add_use({link, acknowledgement_share});
  first_use_.push_back(static_cast<int>(uses_.size()));
}

/// Keeps the uses of a route, the last in the list, sorted by link. A link that the route crosses more than
/// once gets one use, with the sum of the shares.
void GraphNetwork::add_use(const LinkUse& use) {
  const auto position = std::lower_bound(uses_.begin() + first_use_.back(), uses_.end(), use,
                                         [](const LinkUse& a, const LinkUse& b) { return a.link < b.link; });
  if (position != uses_.end() && position->link == use.link)
    position->share += use.share;
  else
    uses_.insert(position, use);
}

std::span<const LinkUse> GraphNetwork::uses_of(const Task& task) const {
  const std::size_t i = task.kind == TaskKind::flow ? at(task.route) : graph_.routes.size() + at(task.host);
  return std::span(uses_).subspan(at(first_use_[i]), at(first_use_[i + 1] - first_use_[i]));
}

FlowParameters GraphNetwork::parameters(const Task& flow) const {
  const NetworkModel& model = graph_.model;
  double latency = 0, penalty = 0;
  for (const int link : graph_.routes[at(flow.route)].links) {
    latency += latency_[at(link)];
    // During an outage the link's regular bandwidth determines the weight.
    const double bandwidth =
        bandwidth_[at(link)] > 0 ? bandwidth_[at(link)] : graph_.links[at(link)].bandwidth;
    if (bandwidth > 0) penalty += model.weight_s / bandwidth;
  }
  FlowParameters parameters{latency * model.latency_factor, 1, flow.rate};
  penalty += latency + graph_.routes[at(flow.route)].return_latency;
  if (model.weigh_by_latency) parameters.weight = 1 / std::max(penalty, min_penalty);
  if (model.window > 0 && latency > 0)
    parameters.rate_cap = std::min(parameters.rate_cap, model.window / (2 * latency));
  return parameters;
}

int GraphNetwork::add(const Task& task, double weight, double rate_cap) {
  return fluid_.add(uses_of(task), task.amount, weight, rate_cap);
}

int GraphNetwork::capacity_of(Profile::Quantity quantity, int number) const {
  return quantity == Profile::Quantity::speed ? host_links_[at(number)] : number;
}

void GraphNetwork::set(Profile::Quantity quantity, int number, double value) {
  switch (quantity) {
    case Profile::Quantity::bandwidth:
      bandwidth_[at(number)] = value;
      return fluid_.set_capacity(number, value * graph_.model.bandwidth_factor);
    case Profile::Quantity::latency:
      latency_[at(number)] = value;
      return;
    case Profile::Quantity::speed:
      return fluid_.set_capacity(capacity_of(quantity, number), value);
  }
}

void GraphNetwork::set_down(const Failure& failure, bool down) {
  const int change = down ? 1 : -1;
  total_down_ += change;
  if (failure.host != no_index) {
    hosts_down_[at(failure.host)] += change;
  } else {
    links_down_[at(failure.link)] += change;
    total_links_down_ += change;
  }
}

bool GraphNetwork::is_down(const Task& task) const {
  if (task.kind == TaskKind::delay) return false;
  if (hosts_down_[at(task.host)] > 0) return true;
  if (task.kind == TaskKind::compute) return false;
  if (hosts_down_[at(task.destination)] > 0) return true;
  if (task.route == no_index || total_links_down_ == 0) return false;
  const std::vector<int>& links = graph_.routes[at(task.route)].links;
  return std::any_of(links.begin(), links.end(), [&](int link) { return links_down_[at(link)] > 0; });
}

}  // namespace dtfm::sim
