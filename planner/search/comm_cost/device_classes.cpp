#include "planner/search/comm_cost/device_classes.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>

#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace dtfm::search {
namespace {

/// Hash that is equal for devices whose costs to all others are equal up to their order.
std::uint64_t signature(const cost::CommCostModel& model, int device) {
  std::uint64_t sum = 0;
  for (int peer = 0; peer < model.devices(); ++peer) {
    if (peer == device) continue;
    for (const double value : {model.sync(peer, device), model.hop(peer, device)}) {
      std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
      bits = (bits ^ (bits >> 32)) * 0x9E3779B97F4A7C15u;
      sum += bits ^ (bits >> 29);
    }
  }
  return sum;
}

bool interchangeable(const cost::CommCostModel& model, int a, int b) {
  for (int peer = 0; peer < model.devices(); ++peer)
    if (peer != a && peer != b &&
        (model.sync(peer, a) != model.sync(peer, b) || model.hop(peer, a) != model.hop(peer, b)))
      return false;
  return true;
}

/// Numbers classes in the order of their first members.
DeviceClasses numbered(const std::vector<int>& label) {
  DeviceClasses classes;
  std::map<int, int> number;
  for (const int value : label) {
    const auto [entry, is_new] = number.emplace(value, classes.count);
    if (is_new) ++classes.count;
    classes.class_of.push_back(entry->second);
  }
  return classes;
}

}  // namespace

std::vector<std::vector<int>> DeviceClasses::members() const {
  std::vector<std::vector<int>> result(at(count));
  for (std::size_t device = 0; device < class_of.size(); ++device)
    result[at(class_of[device])].push_back(static_cast<int>(device));
  return result;
}

DeviceClasses interchangeable_devices(const cost::CommCostModel& model, const StopFunction& stop) {
  std::map<std::uint64_t, std::vector<int>> representatives;
  std::vector<int> label(at(model.devices()));
  std::iota(label.begin(), label.end(), 0);
  for (int device = 0; device < model.devices() && !is_stopped(stop); ++device) {
    auto& candidates = representatives[signature(model, device)];
    const auto same = std::find_if(candidates.begin(), candidates.end(), [&](int representative) {
      return interchangeable(model, representative, device);
    });
    const bool is_new = same == candidates.end();
    if (is_new)
      candidates.push_back(device);
    else
      label[at(device)] = *same;
  }
  return numbered(label);
}

// Nearest-neighbour chain (Murtagh, 1983) with the Lance-Williams update for the average: O(n²). It requires
// that a merged cluster is no closer to any other than the nearer of its two parts, to the last bit.
Dendrogram cluster_devices(const cost::CommCostModel& model, const StopFunction& stop) {
  const int n = model.devices();
  Eigen::MatrixXf distance = model.hop.cast<float>();
  std::vector<int> size(at(n), 1), id(at(n)), active(at(n)), chain;
  std::iota(id.begin(), id.end(), 0);
  std::iota(active.begin(), active.end(), 0);
  Dendrogram tree{n, {}};
  while (active.size() > 1) {
    if (is_stopped(stop)) break;
    if (chain.empty()) chain.push_back(active.front());
    const int top = chain.back();
    const int before = chain.size() > 1 ? chain[chain.size() - 2] : -1;
    int nearest = before;
    for (const int other : active)
      if (other != top && (nearest < 0 || distance(other, top) < distance(nearest, top))) nearest = other;
    if (nearest != before) {
      chain.push_back(nearest);
      continue;
    }
    chain.resize(chain.size() - 2);
    const int kept = std::min(top, nearest), gone = std::max(top, nearest);
    tree.merges.push_back({id[at(kept)], id[at(gone)], distance(kept, gone)});
    id[at(kept)] = n + static_cast<int>(tree.merges.size()) - 1;
    active.erase(std::find(active.begin(), active.end(), gone));
    const auto weight =
        static_cast<float>(size[at(kept)]) / static_cast<float>(size[at(kept)] + size[at(gone)]);
    for (const int other : active) {
      if (other == kept) continue;
      const float near = std::min(distance(other, kept), distance(other, gone));
      const float average = weight * distance(other, kept) + (1 - weight) * distance(other, gone);
      distance(other, kept) = distance(kept, other) = std::max(near, average);
    }
    size[at(kept)] += size[at(gone)];
  }
  for (std::size_t i = 1; i < active.size(); ++i) {
    tree.merges.push_back({id[at(active[0])], id[at(active[i])], std::numeric_limits<double>::infinity()});
    id[at(active[0])] = n + static_cast<int>(tree.merges.size()) - 1;
  }
  return tree;
}

std::vector<int> Dendrogram::leaf_order() const {
  const auto height = [this](int node) { return node < devices ? 0 : merges[at(node - devices)].distance; };
  std::vector<int> order, stack;
  stack.push_back(merges.empty() ? 0 : devices + static_cast<int>(merges.size()) - 1);
  while (!stack.empty()) {
    const int node = stack.back();
    stack.pop_back();
    if (node < devices) {
      order.push_back(node);
      continue;
    }
    const Merge& merge = merges[at(node - devices)];
    const bool left_first = height(merge.left) <= height(merge.right);
    stack.push_back(left_first ? merge.right : merge.left);
    stack.push_back(left_first ? merge.left : merge.right);
  }
  return order;
}

DeviceClasses Dendrogram::cut(int count) const {
  std::vector<int> by_distance(merges.size());
  std::iota(by_distance.begin(), by_distance.end(), 0);
  std::stable_sort(by_distance.begin(), by_distance.end(),
                   [this](int a, int b) { return merges[at(a)].distance < merges[at(b)].distance; });
  std::vector<int> parent(at(devices) + merges.size());
  std::iota(parent.begin(), parent.end(), 0);
  const auto root = [&](int node) {
    while (parent[at(node)] != node) node = parent[at(node)];
    return node;
  };
  // A cluster is at least as tight as any that contains it, so its merge comes first in this order as well.
  for (int i = 0; i < devices - std::max(count, 1); ++i) {
    const int merge = by_distance[at(i)];
    parent[at(root(merges[at(merge)].left))] = devices + merge;
    parent[at(root(merges[at(merge)].right))] = devices + merge;
  }
  std::vector<int> label(at(devices));
  for (int device = 0; device < devices; ++device) label[at(device)] = root(device);
  return numbered(label);
}

int Dendrogram::natural_count() const {
  std::vector<double> distances;
  for (const Merge& merge : merges) distances.push_back(merge.distance);
  std::sort(distances.begin(), distances.end());
  int count = 1;
  double widest = 0;
  for (int clusters = 2; 2 * clusters <= devices; ++clusters) {
    const double within = distances[at(devices - clusters - 1)], beyond = distances[at(devices - clusters)];
    const double gap = beyond > 0 ? beyond / std::max(within, 1e-9 * beyond) : 0;
    if (gap <= widest) continue;
    widest = gap;
    count = clusters;
  }
  return count;
}

}  // namespace dtfm::search
