#include "simulator/lowering/lowered_network.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace dtfm::sim {
namespace {

using LinkKind = LinkRole::Kind;

/// Minimum capacity over all topology entries, by {from site, to site, inside hosts}; absent if unlimited.
std::map<std::tuple<int, int, bool>, BitsPerSecond> pair_capacities(const Topology& topology) {
  std::map<std::tuple<int, int, bool>, BitsPerSecond> capacities;
  const auto* rules = std::get_if<RuleLinks>(&topology.links);
  if (rules == nullptr || std::none_of(rules->links.begin(), rules->links.end(),
                                       [](const Link& link) { return link.capacity < unlimited; }))
    return capacities;
  // Site of each link class; no_index if the topology no longer has devices of the class.
  std::vector<int> site(static_cast<std::size_t>(rules->table.rows()), no_index);
  for (int device = 0; device < topology.size(); ++device)
    site[at(rules->link_class[at(device)])] = topology.devices[at(device)].site;
  for (const bool same_host : {false, true}) {
    const auto& table = same_host ? rules->same_host : rules->table;
    for (int to = 0; to < table.cols(); ++to)
      for (int from = 0; from < table.rows(); ++from) {
        const int link_index = table(from, to);
        if (link_index < 0 || site[at(from)] == no_index || site[at(to)] == no_index) continue;
        if (!(rules->links[at(link_index)].capacity < unlimited)) continue;
        BitsPerSecond& min_capacity =
            capacities.emplace(std::tuple(site[at(from)], site[at(to)], same_host), unlimited).first->second;
        min_capacity = std::min(min_capacity, rules->links[at(link_index)].capacity);
      }
  }
  return capacities;
}

}  // namespace

LoweredNetwork::LoweredNetwork(const Topology& topology, const Calibration& constants, TaskGraph& graph,
                               DeviceSymmetry symmetry)
    : topology_(topology),
      graph_(graph),
      symmetry_(std::move(symmetry)),
      capacities_(pair_capacities(topology)) {
  DTFM_ASSERT(graph.hosts.empty() && graph.links.empty());
  graph.hosts.resize(topology.devices.size());
  graph.model.weigh_by_latency = topology.fairness == Fairness::rtt;
  graph.model.bandwidth_factor = constants.network_efficiency;
}

int LoweredNetwork::route(int from, int to) {
  DTFM_ASSERT(from != to);
  const auto [found, is_new] = routes_.emplace(std::pair(from, to), static_cast<int>(graph_.routes.size()));
  if (is_new) graph_.routes.push_back(make_route(from, to));
  return found->second;
}

int LoweredNetwork::link(const LinkKey& key, const LinkRole& role, BitsPerSecond bandwidth, Seconds latency) {
  const auto [found, is_new] = links_.emplace(key, static_cast<int>(graph_.links.size()));
  if (is_new) {
    const Sharing sharing = role.kind == LinkKind::flow ? Sharing::fatpipe : Sharing::shared;
    graph_.links.push_back({bandwidth.value() / bits_per_byte, latency.value(), sharing});
    roles_.push_back(role);
  }
  return found->second;
}

Route LoweredNetwork::make_route(int from, int to) {
  const int receiver_index = symmetry_.representative_of(to);
  const Device &sender = topology_.devices[at(from)], &receiver = topology_.devices[at(receiver_index)];
  const Link pair = topology_.link(from, to);
  const int link_index = topology_.link_index(from, to);
  const FlowCounts counts = symmetry_.flow_counts(from, to);
  const bool has_counts = !symmetry_.is_trivial();
  Route route;
  route.return_latency = topology_.link(to, from).latency.value();
  const auto add = [&](const LinkKey& key, BitsPerSecond bandwidth, const LinkRole& role, double flow_count) {
    if (!(bandwidth < unlimited)) return;
    route.links.push_back(link(key, role, bandwidth, Seconds()));
    if (has_counts) route.flow_counts.push_back(flow_count);
  };
  route.links = {link({LinkKind::flow, from, to, 0}, {LinkKind::flow, from, to, link_index}, pair.bandwidth,
                      pair.latency)};
  if (has_counts) route.flow_counts = {1};
  if (pair.shared_by_sender)
    add({LinkKind::sender, from, no_index, link_index}, pair.bandwidth,
        {LinkKind::sender, from, to, link_index}, counts.per_sender);
  const bool same_host = sender.host == topology_.devices[at(to)].host;
  const auto capacity = capacities_.find({sender.site, receiver.site, same_host});
  if (capacity != capacities_.end())
    add({LinkKind::pair_capacity, sender.site, receiver.site, same_host ? 1 : 0}, capacity->second,
        {LinkKind::pair_capacity, sender.site, receiver.site}, counts.in_all);
  const auto add_end = [&](LinkKind kind, int end, BitsPerSecond bandwidth, double flow_count) {
    add({kind, end, no_index, 0}, bandwidth, {kind, end, no_index}, flow_count);
  };
  if (!same_host) {
    add_end(LinkKind::device_uplink, from, sender.uplink, counts.per_sender);
    add_end(LinkKind::device_downlink, receiver_index, receiver.downlink, counts.per_receiver);
    add_end(LinkKind::host_uplink, sender.host, sender.host_uplink, counts.per_sender);
    add_end(LinkKind::host_downlink, receiver.host, receiver.host_downlink, counts.per_receiver);
  }
  if (sender.site != receiver.site) {
    add_end(LinkKind::site_uplink, sender.site, topology_.sites[at(sender.site)].uplink, counts.in_all);
    add_end(LinkKind::site_downlink, receiver.site, topology_.sites[at(receiver.site)].downlink,
            counts.in_all);
  }
  return route;
}

}  // namespace dtfm::sim
