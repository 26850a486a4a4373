#include "planner/search/structured_starts.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "planner/core/parallel.hpp"
#include "planner/search/block_starts.hpp"
#include "planner/search/device_classes.hpp"
#include "planner/search/random_placement.hpp"

namespace dtfm {
namespace {

constexpr int most_block_starts = 4;

struct Pattern {
  int order, segment, block;  // segment: groups; block: devices
};

/// Neighbours as in the tree of clusters, but those with the fastest nearest neighbour first.
std::vector<int> by_fastest_link(const CommCostModel& model, const std::vector<int>& leaves,
                                 const std::function<bool()>& stop) {
  std::vector<double> fastest(leaves.size(), std::numeric_limits<double>::infinity());
  for (int device = 0; device < model.devices() && !stop(); ++device)
    for (int peer = 0; peer < model.devices(); ++peer)
      if (peer != device)
        fastest[static_cast<std::size_t>(device)] =
            std::min(fastest[static_cast<std::size_t>(device)], model.hop(peer, device));
  std::vector<int> order = leaves;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return fastest[static_cast<std::size_t>(a)] < fastest[static_cast<std::size_t>(b)];
  });
  return order;
}

Placement dealt(const CommCostModel& model, std::span<const int> order, int segment, int block) {
  Placement placement(model.stages, model.replicas);
  for (int first = 0; first < model.stages; first += segment) {
    const int groups = std::min(segment, model.stages - first);
    std::vector<int> filled(static_cast<std::size_t>(groups));
    const auto devices = order.subspan(static_cast<std::size_t>(first * model.replicas),
                                       static_cast<std::size_t>(groups * model.replicas));
    int group = 0, in_block = 0;
    for (const int device : devices) {
      while (filled[static_cast<std::size_t>(group)] == model.replicas || in_block == block) {
        group = (group + 1) % groups;
        in_block = 0;
      }
      placement.at(first + group, filled[static_cast<std::size_t>(group)]++) = device;
      ++in_block;
    }
  }
  return placement;
}

/// 1, 2, 4, … and `most` itself.
std::vector<int> doubling(int most) {
  std::vector<int> sizes;
  for (int size = 1; size < most; size *= 2) sizes.push_back(size);
  sizes.push_back(most);
  return sizes;
}

}  // namespace

std::vector<Deployed> structured_starts(const CommCostModel& model, int threads,
                                        const std::function<bool()>& stop) {
  std::vector<int> file_order(static_cast<std::size_t>(model.devices()));
  std::iota(file_order.begin(), file_order.end(), 0);
  const Dendrogram tree = cluster_devices(model, stop);
  const std::vector<int> leaves = tree.leaf_order();
  const std::vector<std::vector<int>> orders{file_order, leaves, by_fastest_link(model, leaves, stop)};
  std::vector<Pattern> patterns;
  for (int order = 0; order < static_cast<int>(orders.size()); ++order)
    for (const int segment : doubling(model.stages))
      for (const int block : doubling(model.replicas))
        if (segment > 1 || block == 1) patterns.push_back({order, segment, block});
  auto starts = parallel_map(static_cast<int>(patterns.size()), threads, [&](int i) {
    if (i > 0 && stop()) return Deployed{};
    const Pattern& pattern = patterns[static_cast<std::size_t>(i)];
    const auto& order = orders[static_cast<std::size_t>(pattern.order)];
    return deployed(model, dealt(model, order, pattern.segment, pattern.block), stop);
  });
  std::erase_if(starts, [](const Deployed& start) { return start.placement.stages() == 0; });
  for (Deployed& start :
       block_starts(model, tree.cut(tree.natural_count()), most_block_starts, threads, stop))
    starts.push_back(std::move(start));
  const auto by_cost = [](const Deployed& a, const Deployed& b) { return a.cost < b.cost; };
  std::stable_sort(starts.begin(), starts.end(), by_cost);
  const auto same_cost = [](const Deployed& a, const Deployed& b) { return a.cost == b.cost; };
  starts.erase(std::unique(starts.begin(), starts.end(), same_cost), starts.end());
  return starts;
}

}  // namespace dtfm
