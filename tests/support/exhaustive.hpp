// COMM-COST by its definition: every matching, every order, every partition. For tiny instances only.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "core/base/index.hpp"
#include "planner/cost/comm_cost/comm_cost.hpp"

namespace dtfm {
using namespace cost;

using Groups = std::vector<std::vector<int>>;

inline Groups groups_of(const Placement& placement) {
  Groups groups;
  for (int stage = 0; stage < placement.stages(); ++stage)
    groups.emplace_back(placement.group(stage).begin(), placement.group(stage).end());
  return groups;
}

inline double exhaustive_sync_cost(const CommCostModel& model, const std::vector<int>& group) {
  double slowest = 0;
  for (const int a : group) {
    double sum = 0;
    for (const int b : group)
      if (a != b) sum += model.sync(a, b);
    slowest = std::max(slowest, sum);
  }
  return slowest;
}

inline double exhaustive_matching(const CommCostModel& model, const std::vector<int>& from,
                                  std::vector<int> to) {
  std::sort(to.begin(), to.end());
  double best = std::numeric_limits<double>::infinity();
  do {
    double slowest = 0;
    for (std::size_t i = 0; i < from.size(); ++i) slowest = std::max(slowest, model.hop(from[i], to[i]));
    best = std::min(best, slowest);
  } while (std::next_permutation(to.begin(), to.end()));
  return best;
}

/// Returns DATAP + PIPELINEP of a partition whose stages are in the order of `groups`.
inline double exhaustive_cost_in_order(const CommCostModel& model, const Groups& groups) {
  double data_parallel = 0, pipeline_parallel = 0;
  for (const auto& group : groups)
    data_parallel = std::max(data_parallel, exhaustive_sync_cost(model, group));
  for (std::size_t i = 1; i < groups.size(); ++i)
    pipeline_parallel += exhaustive_matching(model, groups[i - 1], groups[i]);
  return data_parallel + pipeline_parallel;
}

/// Returns the COMM-COST of a partition, minimized over the order of the stages.
inline double exhaustive_comm_cost(const CommCostModel& model, const Groups& groups) {
  const std::size_t n = groups.size();
  std::vector<std::vector<double>> weights(n, std::vector<double>(n));
  double data_parallel = 0;
  for (std::size_t a = 0; a < n; ++a) {
    data_parallel = std::max(data_parallel, exhaustive_sync_cost(model, groups[a]));
    for (std::size_t b = 0; b < a; ++b)
      weights[a][b] = weights[b][a] = exhaustive_matching(model, groups[a], groups[b]);
  }
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  double shortest = std::numeric_limits<double>::infinity();
  do {
    double length = 0;
    for (std::size_t i = 1; i < n; ++i) length += weights[order[i - 1]][order[i]];
    shortest = std::min(shortest, length);
  } while (std::next_permutation(order.begin(), order.end()));
  return data_parallel + shortest;
}

/// Calls `visit` once with every partition of the devices into `stages` groups of `replicas`.
inline void for_each_partition(int stages, int replicas, const std::function<void(const Groups&)>& visit) {
  Groups groups(at(stages));
  const std::function<void(int)> place = [&](int device) {
    if (device == stages * replicas) return visit(groups);
    for (auto& group : groups) {
      const bool is_new = group.empty();
      if (static_cast<int>(group.size()) < replicas) {
        group.push_back(device);
        place(device + 1);
        group.pop_back();
      }
      if (is_new) break;  // the other empty groups are equivalent
    }
  };
  place(0);
}

/// Returns the minimum COMM-COST over all partitions.
inline double exhaustive_optimum(const CommCostModel& model) {
  double best = std::numeric_limits<double>::infinity();
  for_each_partition(model.stages, model.replicas, [&](const Groups& groups) {
    best = std::min(best, exhaustive_comm_cost(model, groups));
  });
  return best;
}

}  // namespace dtfm
