#include "simulator/lowering/lowered_network.hpp"

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"

namespace dtfm {
namespace {

using Kind = LinkMeaning::Kind;

/// Which entry of the topology's links is for a pair of devices; measured links have none that are shared.
int entry_of(const Topology& topology, int from, int to) {
  const auto* rules = std::get_if<RuleLinks>(&topology.links);
  if (rules == nullptr) return 0;
  const bool same_host = topology.devices[at(from)].host == topology.devices[at(to)].host;
  const auto& table = same_host ? rules->same_host : rules->table;
  return table(rules->port[at(from)], rules->port[at(to)]);
}

}  // namespace

LoweredNetwork::LoweredNetwork(const Topology& topology, const SimConstants& constants, TaskGraph& graph)
    : topology_(topology), graph_(graph) {
  DTFM_ASSERT(graph.hosts.empty() && graph.links.empty());
  graph.hosts.resize(topology.devices.size());
  graph.model.weigh_by_latency = topology.fairness == Fairness::rtt;
  graph.model.bandwidth_factor = constants.network_efficiency;
}

int LoweredNetwork::route(int from, int to) {
  DTFM_ASSERT(from != to);
  const auto [place, is_new] = routes_.emplace(std::pair(from, to), static_cast<int>(graph_.routes.size()));
  if (is_new) graph_.routes.push_back({links_between(from, to), {}});
  return place->second;
}

int LoweredNetwork::link(const LinkKey& key, const LinkMeaning& meaning, BitsPerSecond bandwidth,
                         Seconds latency) {
  const auto [place, is_new] = links_.emplace(key, static_cast<int>(graph_.links.size()));
  if (is_new) {
    const Sharing sharing = meaning.kind == Kind::flow ? Sharing::fatpipe : Sharing::shared;
    graph_.links.push_back({"", bandwidth.value() / bits_per_byte, latency.value(), sharing});
    meanings_.push_back(meaning);
  }
  return place->second;
}

std::vector<int> LoweredNetwork::links_between(int from, int to) {
  const Device &sender = topology_.devices[at(from)], &receiver = topology_.devices[at(to)];
  const Link pair = topology_.link(from, to);
  const int entry = entry_of(topology_, from, to);
  std::vector<int> links = {
      link({Kind::flow, from, to, 0}, {Kind::flow, from, to}, pair.bandwidth, pair.latency)};
  const auto add = [&](Kind kind, int a, int b, int of_entry, BitsPerSecond bandwidth,
                       const LinkMeaning& meaning) {
    if (bandwidth < unlimited) links.push_back(link({kind, a, b, of_entry}, meaning, bandwidth, Seconds()));
  };
  if (pair.shared_by_sender)
    add(Kind::sender, from, no_index, entry, pair.bandwidth, {Kind::sender, from, to});
  add(Kind::pair_capacity, sender.site, receiver.site, entry, pair.capacity,
      {Kind::pair_capacity, sender.site, receiver.site});
  const auto add_end = [&](Kind kind, int end, BitsPerSecond bandwidth) {
    add(kind, end, no_index, 0, bandwidth, {kind, end, no_index});
  };
  if (sender.host != receiver.host) {
    add_end(Kind::device_uplink, from, sender.uplink);
    add_end(Kind::device_downlink, to, receiver.downlink);
  }
  if (sender.site != receiver.site) {
    add_end(Kind::site_uplink, sender.site, topology_.sites[at(sender.site)].uplink);
    add_end(Kind::site_downlink, receiver.site, topology_.sites[at(receiver.site)].downlink);
  }
  return links;
}

}  // namespace dtfm
