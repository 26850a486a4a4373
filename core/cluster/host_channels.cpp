#include "core/cluster/host_channels.hpp"

#include <algorithm>
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

}  // namespace dtfm
