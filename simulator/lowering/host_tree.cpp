#include "simulator/lowering/host_tree.hpp"

#include <algorithm>
#include <vector>

#include "core/base/index.hpp"
#include "core/cluster/host_channels.hpp"
#include "core/plan/problem.hpp"

namespace dtfm::sim {
namespace {

/// Parent of a host other than the first, which is the root: its index with the lowest set bit cleared and
/// the next higher bit set, if there is such a host; otherwise with that bit cleared.
std::size_t parent_of(std::size_t host, std::size_t hosts) {
  const std::size_t bit = host & (~host + 1), up = (host ^ bit) | (bit << 1);
  return up < hosts ? up : host ^ bit;
}

}  // namespace

double tree_share(const Topology& topology, const Calibration& constants, std::span<const int> devices) {
  const auto hop_s = [&](int from, int to) {
    return topology.link(from, to).latency.value() + message_overhead_s(constants, topology, from, to);
  };
  std::vector<std::vector<int>> hosts;
  double around_s = 0;
  const HostChannels channels(topology, devices);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const int device = devices[channels.order()[i]],
              next = devices[channels.order()[(i + 1) % devices.size()]];
    const Device &it = topology.devices[at(device)], &first = topology.devices[at(devices.front())];
    if (it.site != first.site || topology.transport_between(devices.front(), device)) return 1;
    around_s += hop_s(device, next);
    if (hosts.empty() || topology.devices[at(hosts.back().front())].host != it.host) hosts.emplace_back();
    hosts.back().push_back(device);
  }
  if (hosts.size() < 2) return 1;
  double longest_s = 0;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    double way_s = 0;
    for (std::size_t i = 1; i < hosts[host].size(); ++i)
      way_s += hop_s(hosts[host][i], hosts[host][i - 1]) + hop_s(hosts[host][i - 1], hosts[host][i]);
    for (std::size_t it = host; it != 0;) {
      const std::size_t parent = parent_of(it, hosts.size());
      const int below = hosts[it].front(), above = hosts[parent].front();
      way_s += hop_s(below, above) + hop_s(above, below);
      it = parent;
    }
    longest_s = std::max(longest_s, way_s);
  }
  const auto n = static_cast<double>(devices.size());
  const double ring_s = 2 * (n - 1) * around_s / n;
  return longest_s < ring_s ? longest_s / ring_s : 1;
}

}  // namespace dtfm::sim
