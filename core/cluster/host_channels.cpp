#include "core/cluster/host_channels.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "core/base/index.hpp"

namespace dtfm {

HostChannels::HostChannels(const Topology& topology, std::span<const int> devices)
    : topology_(topology), devices_(devices.begin(), devices.end()), order_(devices.size()) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::vector<std::pair<int, std::size_t>> by_host;  // host, index
  by_host.reserve(devices_.size());
  for (std::size_t i = 0; i < devices_.size(); ++i)
    by_host.emplace_back(topology.devices[at(devices_[i])].host, i);
  std::sort(by_host.begin(), by_host.end());
  for (std::size_t i = 0; i < by_host.size(); ++i)
    hosts_ += i == 0 || by_host[i].first != by_host[i - 1].first ? 1 : 0;
  if (at(hosts_) == devices_.size()) return;
  on_host_.resize(devices_.size());
  members_.reserve(devices_.size());
  for (std::size_t first = 0; first < by_host.size(); first = members_.size()) {
    while (members_.size() < by_host.size() && by_host[members_.size()].first == by_host[first].first)
      members_.push_back(by_host[members_.size()].second);
    for (std::size_t i = first; i < members_.size(); ++i) on_host_[members_[i]] = {first, members_.size()};
  }
  order_.clear();
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const auto [first, last] = on_host_[i];
    if (members_[first] == i)
      for (std::size_t k = first; k < last; ++k) order_.push_back(members_[k]);
  }
  // Devices of one link class with equal limits are interchangeable, so it does not matter which of them form
  // a pair. Those of different classes must be paired in the same way on all hosts.
  const auto* rules = std::get_if<RuleLinks>(&topology.links);
  const auto key = [&](std::size_t i) {
    const int device = devices_[i];
    const Device& it = topology.devices[at(device)];
    return std::tuple(rules ? rules->link_class[at(device)] : 0, it.uplink, it.downlink, device);
  };
  for (std::size_t first = 0; first < members_.size(); first = on_host_[members_[first]].second)
    std::sort(members_.begin() + static_cast<std::ptrdiff_t>(first),
              members_.begin() + static_cast<std::ptrdiff_t>(on_host_[members_[first]].second),
              [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
}

HostChannels::Range HostChannels::members_on(int host) const {
  const auto host_of = [&](std::size_t i) { return topology_.devices[at(devices_[i])].host; };
  const auto begin = std::partition_point(members_.begin(), members_.end(),
                                          [&](std::size_t i) { return host_of(i) < host; });
  if (begin == members_.end() || host_of(*begin) != host) return {};
  return on_host_[*begin];
}

void HostChannels::add_between(std::size_t from, std::size_t to, IndexPairs& pairs) const {
  if (on_host_.empty() || on_host_[from] == on_host_[to]) return void(pairs.emplace_back(from, to));
  const Range senders = on_host_[from], receivers = on_host_[to];
  const std::size_t count = std::min(senders.second - senders.first, receivers.second - receivers.first);
  if (count == 1) return void(pairs.emplace_back(from, to));
  for (std::size_t i = 0; i < count; ++i)
    pairs.emplace_back(members_[senders.first + i], members_[receivers.first + i]);
}

std::vector<std::pair<int, int>> HostChannels::between(int from, int to) const {
  const int host = topology_.devices[at(from)].host, other = topology_.devices[at(to)].host;
  if (host == other || on_host_.empty()) return {{from, to}};
  const Range senders = members_on(host), receivers = members_on(other);
  const std::size_t count = std::min(senders.second - senders.first, receivers.second - receivers.first);
  if (count == 1) return {{from, to}};
  std::vector<std::pair<int, int>> pairs;
  for (std::size_t i = 0; i < count; ++i)
    pairs.emplace_back(devices_[members_[senders.first + i]], devices_[members_[receivers.first + i]]);
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
