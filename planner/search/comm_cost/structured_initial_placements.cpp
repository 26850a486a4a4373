#include "planner/search/comm_cost/structured_initial_placements.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/index.hpp"
#include "core/base/work.hpp"
#include "planner/search/comm_cost/block_initial_placements.hpp"
#include "planner/search/comm_cost/device_classes.hpp"
#include "core/plan/placement_codec.hpp"
#include "planner/search/comm_cost/random_placement.hpp"

namespace dtfm::search {
namespace {

constexpr int max_block_placements = 4;
constexpr double max_work = 8e8;  // for deployment, in pairs of devices that are matched: half a minute

struct Pattern {
  int order, segment, block;  // index of the order; groups per segment; devices per block
};

Placement interleaved_placement(const cost::CommCostModel& model, std::span<const int> order, int segment,
                                int block) {
  Placement placement(model.stages, model.replicas);
  for (int first = 0; first < model.stages; first += segment) {
    const int groups = std::min(segment, model.stages - first);
    std::vector<int> filled(at(groups));
    const auto devices = order.subspan(at(first * model.replicas), at(groups * model.replicas));
    int group = 0, in_block = 0;
    for (const int device : devices) {
      while (filled[at(group)] == model.replicas || in_block == block) {
        group = (group + 1) % groups;
        in_block = 0;
      }
      placement.at(first + group, filled[at(group)]++) = device;
      ++in_block;
    }
  }
  return placement;
}

/// Returns 1, 2, 4, … below `limit`, and `limit` itself.
std::vector<int> doubling(int limit) {
  std::vector<int> sizes;
  for (int size = 1; size < limit; size *= 2) sizes.push_back(size);
  sizes.push_back(limit);
  return sizes;
}

struct Candidate {
  Placement placement;  // neither ordered nor matched
  double sync_s;        // s, of its slowest group; a lower bound on its cost
};

/// Placements by all patterns, in ascending order of gradient synchronization.
std::vector<Candidate> interleaved_placements(const cost::CommCostModel& model,
                                              const std::vector<std::vector<int>>& orders, const Work& work) {
  std::vector<Pattern> patterns;
  for (int order = 0; order < static_cast<int>(orders.size()); ++order)
    for (const int segment : doubling(model.stages))
      for (const int block : doubling(model.replicas))
        if (segment > 1 || block == 1) patterns.push_back({order, segment, block});
  auto candidates = distributed_map(static_cast<int>(patterns.size()), work, [&](int i) {
    const Pattern& pattern = patterns[at(i)];
    Candidate candidate{
        interleaved_placement(model, orders[at(pattern.order)], pattern.segment, pattern.block), 0};
    for (int stage = 0; stage < model.stages; ++stage)
      candidate.sync_s = std::max(candidate.sync_s, cost::sync_cost(model, candidate.placement.group(stage)));
    return candidate;
  });
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.sync_s < b.sync_s; });
  return candidates;
}

/// Deployment takes many matchings. Candidates whose gradient synchronization alone costs more than two
/// deployed placements are skipped. The first candidate is always deployed, the others until the work is
/// stopped.
void deploy_cheapest(const cost::CommCostModel& model, const Work& work,
                     const std::vector<Candidate>& candidates,
                     std::vector<DeployedPlacement>& initial_solutions) {
  constexpr int batch = 8;  // independent of the number of threads, so that the result is, too
  const double effort = static_cast<double>(model.devices()) * model.devices();  // per candidate
  const std::size_t limit =
      std::min(candidates.size(),
               std::max<std::size_t>(batch, static_cast<std::size_t>(std::lround(max_work / effort))));
  for (std::size_t first = 0; first < limit; first += batch) {
    std::vector<double> costs;
    for (const DeployedPlacement& start : initial_solutions) costs.push_back(start.cost);
    std::sort(costs.begin(), costs.end());
    if (costs.size() >= 2 && candidates[first].sync_s >= costs[1]) return;
    const int count = std::min(batch, static_cast<int>(limit - first));
    auto deployed_batch = distributed_map(count, work, [&](int i) {
      if (first + at(i) > 0 && is_stopped(work)) return DeployedPlacement{};
      return deploy(model, candidates[first + at(i)].placement, work.stop);
    });
    std::erase_if(deployed_batch,
                  [](const DeployedPlacement& start) { return start.placement.stages() == 0; });
    for (DeployedPlacement& start : deployed_batch) initial_solutions.push_back(std::move(start));
  }
}

}  // namespace

std::vector<DeployedPlacement> structured_initial_placements(const cost::CommCostModel& model,
                                                             const Work& work) {
  std::vector<int> file_order(at(model.devices()));
  std::iota(file_order.begin(), file_order.end(), 0);
  const Dendrogram tree = cluster_devices(model, work.stop);
  const std::vector<std::vector<int>> orders{file_order, tree.leaf_order()};
  std::vector<DeployedPlacement> initial_solutions =
      block_initial_placements(model, tree.cut(tree.natural_count()), max_block_placements, work);
  deploy_cheapest(model, work, interleaved_placements(model, orders, work), initial_solutions);
  const auto by_cost = [](const DeployedPlacement& a, const DeployedPlacement& b) { return a.cost < b.cost; };
  std::stable_sort(initial_solutions.begin(), initial_solutions.end(), by_cost);
  const auto same_cost = [](const DeployedPlacement& a, const DeployedPlacement& b) {
    return a.cost == b.cost;
  };
  initial_solutions.erase(std::unique(initial_solutions.begin(), initial_solutions.end(), same_cost),
                          initial_solutions.end());
  return initial_solutions;
}

}  // namespace dtfm::search
