#include "planner/search/iteration_time/device_order.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/index.hpp"
#include "planner/cost/bounds/spanning_tree_bound.hpp"

namespace dtfm::search {
std::vector<int> nearness_order(const Topology& topology, const cost::NetworkCost& network, double bytes) {
  const int devices = topology.size();
  const auto tree = cost::minimum_spanning_tree(devices, [&](int a, int b) {
    return std::max(network.message(a, b).total_s(bytes), network.message(b, a).total_s(bytes));
  });
  std::vector<std::vector<int>> segment(at(devices));
  std::vector<int> owner(at(devices));  // index of the segment that a device is in
  std::iota(owner.begin(), owner.end(), 0);
  for (int device = 0; device < devices; ++device) segment[at(device)] = {device};
  for (const cost::SpanningEdge& edge : tree) {
    int into = owner[at(edge.a)], from = owner[at(edge.b)];
    if (segment[at(from)].size() > segment[at(into)].size()) std::swap(into, from);
    std::vector<int>&target = segment[at(into)], &source = segment[at(from)];
    for (const int device : source) owner[at(device)] = into;
    // The segment that begins with the earlier device stays in front.
    if (source.front() < target.front())
      target.insert(target.begin(), source.begin(), source.end());
    else
      target.insert(target.end(), source.begin(), source.end());
    source.clear();
  }
  return devices == 0 ? std::vector<int>{} : segment[at(owner[0])];
}

std::vector<std::vector<int>> stage_tensor_groups(const Topology& topology, const std::vector<int>& order,
                                                  int tensor) {
  std::vector<std::vector<int>> tensor_groups;
  std::map<int, std::vector<int>> waiting;  // by host: incomplete tensor-parallel group
  std::map<int, std::size_t> position;      // by host: index of that group
  for (const int device : order) {
    const int host = topology.devices[at(device)].host;
    std::vector<int>& tensor_group = waiting[host];
    if (tensor_group.empty()) {
      position[host] = tensor_groups.size();
      tensor_groups.emplace_back();
    }
    tensor_group.push_back(device);
    if (static_cast<int>(tensor_group.size()) < tensor) continue;
    std::sort(tensor_group.begin(), tensor_group.end());
    tensor_groups[position[host]] = std::move(tensor_group);
    tensor_group.clear();
  }
  std::erase_if(tensor_groups, [](const std::vector<int>& tensor_group) { return tensor_group.empty(); });
  return tensor_groups;
}

namespace {

/// Joins parts of one site, in their order, to groups of `devices`.
std::vector<std::vector<int>> groups_of_parts(const Topology& topology,
                                              const std::vector<std::vector<int>>& parts, int devices) {
  std::vector<std::vector<int>> groups;
  std::map<int, std::size_t> incomplete;  // by site: index of the group
  for (const std::vector<int>& it : parts) {
    const int site = topology.devices[at(it.front())].site;
    if (!incomplete.contains(site)) {
      incomplete[site] = groups.size();
      groups.emplace_back();
    }
    std::vector<int>& group = groups[incomplete[site]];
    group.insert(group.end(), it.begin(), it.end());
    if (static_cast<int>(group.size()) == devices) incomplete.erase(site);
  }
  std::erase_if(groups, [&](const auto& it) { return static_cast<int>(it.size()) < devices; });
  return groups;
}

}  // namespace

std::vector<std::vector<int>> stage_groups(const Topology& topology, const std::vector<int>& order,
                                           int devices, int tensor) {
  std::map<int, int> on_host;
  int largest = 0;
  for (const int device : order) largest = std::max(largest, ++on_host[topology.devices[at(device)].host]);
  std::vector<std::vector<int>> groups;
  for (int part = std::min(devices, largest); part >= tensor && groups.empty(); --part)
    if (devices % part == 0 && part % tensor == 0)
      groups = groups_of_parts(topology, stage_tensor_groups(topology, order, part), devices);
  return groups;
}

std::vector<std::vector<int>> stage_tensor_groups(const Topology& topology, const std::vector<int>& order,
                                                  const std::vector<int>& tensors,
                                                  const std::vector<int>& max_degrees) {
  std::vector<std::vector<int>> tensor_groups;
  std::map<int, std::size_t> position;  // by device: index in `order`
  for (std::size_t i = 0; i < order.size(); ++i) position[order[i]] = i;
  std::vector<bool> is_grouped(at(topology.size()));
  for (auto tensor = tensors.rbegin(); tensor != tensors.rend(); ++tensor) {
    std::vector<int> eligible;
    for (const int device : order)
      if (!is_grouped[at(device)] && (max_degrees.empty() || max_degrees[at(device)] >= *tensor))
        eligible.push_back(device);
    for (std::vector<int>& tensor_group : stage_tensor_groups(topology, eligible, *tensor)) {
      for (const int device : tensor_group) is_grouped[at(device)] = true;
      tensor_groups.push_back(std::move(tensor_group));
    }
  }
  const auto first = [&](const std::vector<int>& tensor_group) {
    std::size_t least = order.size();
    for (const int device : tensor_group) least = std::min(least, position[device]);
    return least;
  };
  std::sort(tensor_groups.begin(), tensor_groups.end(),
            [&](const auto& a, const auto& b) { return first(a) < first(b); });
  return tensor_groups;
}

}  // namespace dtfm::search
