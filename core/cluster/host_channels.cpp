#include "core/cluster/host_channels.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "core/base/index.hpp"

namespace dtfm {

HostChannels::HostChannels(const Topology& topology, std::span<const int> devices)
    : topology_(topology), devices_(devices.begin(), devices.end()) {
  std::vector<std::size_t> first;  // by device: the first one on the same host
  std::map<int, std::size_t> first_of_host;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const int host = topology.devices[at(devices[i])].host;
    members_[host].push_back(devices[i]);
    first.push_back(first_of_host.emplace(host, i).first->second);
    order_.push_back(i);
  }
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::size_t a, std::size_t b) { return first[a] < first[b]; });
  // Devices of one link class with equal limits are interchangeable, so it does not matter which of them form
  // a pair. Those of different classes must be paired in the same way on all hosts.
  const auto* rules = std::get_if<RuleLinks>(&topology.links);
  const auto key = [&](int device) {
    const Device& it = topology.devices[at(device)];
    return std::tuple(rules ? rules->link_class[at(device)] : 0, it.uplink, it.downlink, device);
  };
  for (auto& [host, members] : members_)
    std::sort(members.begin(), members.end(), [&](int a, int b) { return key(a) < key(b); });
}

std::vector<std::pair<int, int>> HostChannels::between(int from, int to) const {
  const int host = topology_.devices[at(from)].host, other = topology_.devices[at(to)].host;
  if (host == other) return {{from, to}};
  const std::vector<int>&senders = members_.at(host), &receivers = members_.at(other);
  const std::size_t count = std::min(senders.size(), receivers.size());
  if (count == 1) return {{from, to}};
  std::vector<std::pair<int, int>> pairs;
  for (std::size_t i = 0; i < count; ++i) pairs.emplace_back(senders[i], receivers[i]);
  return pairs;
}

std::vector<std::pair<int, int>> HostChannels::next_in_ring(std::size_t position) const {
  return between(devices_[order_[position]], devices_[order_[(position + 1) % order_.size()]]);
}

std::vector<std::vector<RingHop>> parallel_rings(const Topology& topology, std::span<const int> devices) {
  const std::size_t count = devices.size();
  const auto host = [&](std::size_t i) { return topology.devices[at(devices[i])].host; };
  std::size_t on_host = 1;
  while (on_host < count && host(on_host) == host(0)) ++on_host;
  bool is_uniform = on_host > 1 && on_host < count && count % on_host == 0;
  std::set<int> hosts;
  for (std::size_t i = 0; is_uniform && i < count; ++i)
    is_uniform = host(i) == host(i - i % on_host) && (i % on_host > 0 || hosts.insert(host(i)).second);
  std::vector<std::vector<RingHop>> hops(count);
  const double across = 1 / static_cast<double>(on_host);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t first = i - i % on_host, next = (i + 1) % on_host;
    if (is_uniform)
      hops[i] = {{first + next, 1 - across}, {(first + on_host) % count + next, across}};
    else
      hops[i] = {{(i + 1) % count, 1}};
  }
  return hops;
}

}  // namespace dtfm
