#include "core/cluster/host_channels.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "core/base/index.hpp"

namespace dtfm {

HostChannels::HostChannels(const Topology& topology, std::span<const int> devices)
    : topology_(topology), devices_(devices.begin(), devices.end()) {
  const auto host_of = [&](int device) { return topology.devices[at(device)].host; };
  // Devices of one link class with equal limits are interchangeable, so it does not matter which of them form
  // a pair. Those of different classes must be paired in the same way on all hosts.
  const auto* rules = std::get_if<RuleLinks>(&topology.links);
  const auto key = [&](int device) {
    const Device& it = topology.devices[at(device)];
    return std::tuple(it.host, rules ? rules->link_class[at(device)] : 0, it.uplink, it.downlink, device);
  };
  members_ = devices_;
  std::sort(members_.begin(), members_.end(), [&](int a, int b) { return key(a) < key(b); });
  for (std::size_t i = 0; i < members_.size(); ++i)
    hosts_ += i == 0 || host_of(members_[i]) != host_of(members_[i - 1]) ? 1 : 0;
  order_.resize(devices.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  if (at(hosts_) == devices.size()) return;
  std::vector<std::size_t> by_host = order_, first(devices.size());  // by device: the first on the same host
  std::stable_sort(by_host.begin(), by_host.end(),
                   [&](std::size_t a, std::size_t b) { return host_of(devices_[a]) < host_of(devices_[b]); });
  for (std::size_t i = 0; i < by_host.size(); ++i) {
    const bool is_first = i == 0 || host_of(devices_[by_host[i]]) != host_of(devices_[by_host[i - 1]]);
    first[by_host[i]] = is_first ? by_host[i] : first[by_host[i - 1]];
  }
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::size_t a, std::size_t b) { return first[a] < first[b]; });
}

std::span<const int> HostChannels::members(int host) const {
  const auto host_of = [&](int device) { return topology_.devices[at(device)].host; };
  const auto begin =
      std::partition_point(members_.begin(), members_.end(), [&](int it) { return host_of(it) < host; });
  const auto end = std::find_if(begin, members_.end(), [&](int it) { return host_of(it) != host; });
  return {begin, end};
}

std::vector<std::pair<int, int>> HostChannels::between(int from, int to) const {
  const int host = topology_.devices[at(from)].host, other = topology_.devices[at(to)].host;
  if (host == other) return {{from, to}};
  if (at(hosts_) == devices_.size()) return {{from, to}};
  const std::span<const int> senders = members(host), receivers = members(other);
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
