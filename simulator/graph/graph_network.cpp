#include "simulator/graph/graph_network.hpp"

#include <algorithm>

namespace dtfm::sim {
namespace {

/// Share of a flow's rate that its acknowledgements use on the reverse path (Velho et al., as in SimGrid).
constexpr double acknowledgement_share = 0.05;
/// Seconds; a route without latency counts like 200 m of fibre, so that its weight is finite and still larger
/// than that of any longer route.
constexpr double min_penalty = 1e-6;

/// Fat pipes that no profile changes, and that routes cross once and with a share of 1: they only cap the
/// rate of each flow.
std::vector<bool> constant_caps(const TaskGraph& graph, const StopFunction& stop) {
  std::vector<bool> result;
  for (const GraphLink& link : graph.links) result.push_back(link.sharing == Sharing::fatpipe);
  for (const Profile& profile : graph.profiles)
    if (profile.quantity != Profile::Quantity::speed)
      for (const Profile::Target& target : profile.targets) result[at(target.index)] = false;
  for (std::size_t number = 0; number < graph.routes.size(); ++number) {
    throw_if_stopped(stop, number);
    const Route& route = graph.routes[number];
    for (std::size_t i = 0; i < route.links.size(); ++i) {
      const bool is_crossed_again =
          std::find(route.links.begin(), route.links.begin() + static_cast<std::ptrdiff_t>(i),
                    route.links[i]) != route.links.begin() + static_cast<std::ptrdiff_t>(i);
      if (is_crossed_again || (!route.flow_counts.empty() && route.flow_counts[i] != 1))
        result[at(route.links[i])] = false;
    }
    if (graph.model.cross_traffic)
      for (const int link : route.reverse) result[at(link)] = false;
  }
  return result;
}

/// The index in the fluid network of each link, and then of each host; no_index for those that are not in
/// it.
std::vector<int> capacity_numbers(const TaskGraph& graph, const StopFunction& stop) {
  std::vector<bool> moves(graph.hosts.size());
  for (std::size_t i = 0; i < moves.size(); ++i)
    moves[i] = graph.hosts[i].sharing == HostSharing::processor_sharing;
  for (const Profile& profile : graph.profiles)
    if (profile.quantity == Profile::Quantity::speed)
      for (const Profile::Target& target : profile.targets) moves[at(target.index)] = true;
  std::vector<int> result;
  int next = 0;
  for (const bool is_cap : constant_caps(graph, stop)) result.push_back(is_cap ? no_index : next++);
  for (const bool is_moving : moves) result.push_back(is_moving ? next++ : no_index);
  return result;
}

std::vector<LinkCapacity> capacities(const TaskGraph& graph, const std::vector<int>& numbers) {
  std::vector<LinkCapacity> result;
  for (std::size_t i = 0; i < graph.links.size(); ++i)
    if (numbers[i] != no_index)
      result.push_back({graph.links[i].bandwidth * graph.model.bandwidth_factor, graph.links[i].sharing});
  for (std::size_t i = 0; i < graph.hosts.size(); ++i)
    if (numbers[graph.links.size() + i] != no_index) result.push_back({graph.hosts[i].speed});
  return result;
}

}  // namespace

GraphNetwork::GraphNetwork(const TaskGraph& graph, const StopFunction& stop)
    : graph_(graph),
      capacity_(capacity_numbers(graph, stop)),
      links_down_(graph.links.size()),
      hosts_down_(graph.hosts.size()),
      fluid_(capacities(graph, capacity_)) {
  for (const GraphLink& link : graph.links) {
    bandwidth_.push_back(link.bandwidth);
    latency_.push_back(link.latency);
  }
  first_use_.push_back(0);
  for (std::size_t i = 0; i < graph.routes.size(); ++i) {
    throw_if_stopped(stop, i);
    add_uses(graph.routes[i]);
  }
  for (std::size_t i = 0; i < graph.hosts.size(); ++i) {
    if (const int link = host_capacity(static_cast<int>(i)); link != no_index) uses_.push_back({link});
    first_use_.push_back(static_cast<int>(uses_.size()));
  }
}

void GraphNetwork::add_uses(const Route& route) {
  for (std::size_t i = 0; i < route.links.size(); ++i)
    add_use(route.links[i], route.flow_counts.empty() ? 1 : route.flow_counts[i]);
  if (graph_.model.cross_traffic)
    for (const int link : route.reverse) add_use(link, acknowledgement_share);
  first_use_.push_back(static_cast<int>(uses_.size()));
}

/// Keeps the uses of a route, the last in the list, sorted by link. A link that the route crosses more than
/// once gets one use, with the sum of the shares.
void GraphNetwork::add_use(int link, double share) {
  const LinkUse use{capacity_[at(link)], share};
  if (use.link == no_index) return;
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
  FlowParameters parameters{latency * model.latency_factor * flow.latencies, 1, flow.rate};
  penalty += latency + graph_.routes[at(flow.route)].return_latency;
  if (model.weigh_by_latency) parameters.weight = 1 / std::max(penalty, min_penalty);
  if (model.window > 0 && latency > 0)
    parameters.rate_cap = std::min(parameters.rate_cap, model.window / (2 * latency));
  return parameters;
}

int GraphNetwork::store(const FlowParameters& parameters) {
  if (unused_.empty()) {
    stored_.push_back(parameters);
    return static_cast<int>(stored_.size()) - 1;
  }
  const int number = unused_.back();
  unused_.pop_back();
  stored_[at(number)] = parameters;
  return number;
}

FlowParameters GraphNetwork::take(int number) {
  unused_.push_back(number);
  return stored_[at(number)];
}

int GraphNetwork::add(int number, const FlowParameters& parameters, double trailing_latency) {
  const Task& task = graph_.tasks[at(number)];
  double rate_cap = parameters.rate_cap;
  int own_links = 0;
  if (task.kind == TaskKind::flow)
    for (const int link : graph_.routes[at(task.route)].links) {
      if (capacity_[at(link)] != no_index) continue;
      rate_cap = std::min(rate_cap, graph_.links[at(link)].bandwidth * graph_.model.bandwidth_factor);
      ++own_links;
    }
  const int flow = fluid_.add(uses_of(task), task.amount, parameters.weight, rate_cap, own_links);
  if (active_.size() <= at(flow)) active_.resize(at(flow) + 1);
  active_[at(flow)] = {number, trailing_latency};
  return flow;
}

int GraphNetwork::capacity_of(Profile::Quantity quantity, int number) const {
  return quantity == Profile::Quantity::speed ? host_capacity(number) : capacity_[at(number)];
}

void GraphNetwork::set(Profile::Quantity quantity, int number, double value) {
  switch (quantity) {
    case Profile::Quantity::bandwidth:
      bandwidth_[at(number)] = value;
      return fluid_.set_capacity(capacity_of(quantity, number), value * graph_.model.bandwidth_factor);
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
  (failure.host != no_index ? hosts_down_[at(failure.host)] : links_down_[at(failure.link)]) += change;
}

bool GraphNetwork::is_down(const Task& task) const {
  if (task.kind == TaskKind::delay) return false;
  if (hosts_down_[at(task.host)] > 0) return true;
  if (task.kind == TaskKind::compute) return false;
  if (hosts_down_[at(task.destination)] > 0) return true;
  if (task.route == no_index) return false;
  const std::vector<int>& links = graph_.routes[at(task.route)].links;
  return std::any_of(links.begin(), links.end(), [&](int link) { return links_down_[at(link)] > 0; });
}

}  // namespace dtfm::sim
