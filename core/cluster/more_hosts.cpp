#include "core/cluster/more_hosts.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/index.hpp"

namespace dtfm {
namespace {

/// Gives devices of one class of `classes` links to devices of another host with these classes.
void add_missing_links(const std::vector<int>& classes, RuleLinks& rules) {
  for (const int from : classes)
    for (const int to : classes) {
      int& link = rules.table(from, to);
      for (Eigen::Index other = 0; link < 0 && other < rules.table.cols(); ++other)
        link = rules.table(from, other);
      for (Eigen::Index other = 0; link < 0 && other < rules.same_host.cols(); ++other)
        link = std::max(rules.same_host(from, other), rules.same_host(other, from));
    }
}

/// Returns a device of another host, preferably at the same site; no_index if there is none.
int neighbour_of(const Topology& topology, int device) {
  const Device& own = topology.devices[at(device)];
  int found = no_index;
  for (int other = 0; other < topology.size(); ++other) {
    const Device& it = topology.devices[at(other)];
    if (it.host == own.host) continue;
    if (it.site == own.site) return other;
    if (found == no_index) found = other;
  }
  return found;
}

/// `origin`: of every device of the larger topology, the device whose links it has. Devices of different
/// hosts with the same origin have the link of that host to a neighbour.
MeasuredLinks larger_links(const Topology& topology, const MeasuredLinks& links,
                           const std::vector<int>& origin, const std::vector<Device>& devices) {
  const auto size = static_cast<Eigen::Index>(origin.size());
  MeasuredLinks result{Eigen::MatrixXd::Zero(size, size), Eigen::MatrixXd::Zero(size, size)};
  for (Eigen::Index i = 0; i < size; ++i)
    for (Eigen::Index j = 0; j < size; ++j) {
      if (i == j) continue;
      const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(j);
      const int from = origin[a], to = origin[b];
      const bool is_new_pair = devices[a].host != devices[b].host &&
                               topology.devices[at(from)].host == topology.devices[at(to)].host;
      const int neighbour = is_new_pair ? neighbour_of(topology, from) : to;
      const int used = neighbour != no_index ? neighbour
                       : from == to          ? (from == 0 ? topology.size() - 1 : 0)
                                             : to;
      result.latency(i, j) = links.latency(from, used);
      result.bandwidth(i, j) = links.bandwidth(from, used);
    }
  return result;
}

}  // namespace

std::vector<int> host_devices(const Topology& topology, int device) {
  std::vector<int> devices;
  for (int other = 0; other < topology.size(); ++other)
    if (topology.devices[at(other)].host == topology.devices[at(device)].host) devices.push_back(other);
  return devices;
}

Topology with_more_hosts(const Topology& topology, int device, int count) {
  Topology result = topology;
  const std::vector<int> copied = host_devices(topology, device);
  int host = 0;
  for (const Device& it : topology.devices) host = std::max(host, it.host);
  std::vector<int> origin(at(topology.size()));
  for (int it = 0; it < topology.size(); ++it) origin[at(it)] = it;
  for (int i = 1; i <= count; ++i)
    for (const int from : copied) {
      Device it = topology.devices[at(from)];
      it.host = host + i;
      it.id = fmt::format("{}+{}", it.id, i);
      result.devices.push_back(std::move(it));
      origin.push_back(from);
    }
  if (const auto* measured = std::get_if<MeasuredLinks>(&topology.links)) {
    result.links = larger_links(topology, *measured, origin, result.devices);
    return result;
  }
  auto& rules = std::get<RuleLinks>(result.links);
  std::vector<int> classes;
  for (const int it : copied) classes.push_back(rules.link_class[at(it)]);
  add_missing_links(classes, rules);
  for (int it = topology.size(); it < result.size(); ++it)
    rules.link_class.push_back(rules.link_class[at(origin[at(it)])]);
  return result;
}

}  // namespace dtfm
