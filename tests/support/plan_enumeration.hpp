// Enumerates every plan of a tiny problem.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "core/base/index.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm {
using namespace cost;

/// Calls `use` with every way to write `total` as a sum of `parts` positive integers.
inline void for_each_composition(int total, int parts, std::vector<int>& sum,
                                 const std::function<void()>& use) {
  if (parts == 1) {
    sum.push_back(total);
    use();
    sum.pop_back();
    return;
  }
  for (int first = 1; first <= total - parts + 1; ++first) {
    sum.push_back(first);
    for_each_composition(total - first, parts - 1, sum, use);
    sum.pop_back();
  }
}

/// Calls `use` with every extension of `plan` to `replicas` pipelines of `stages` stages on the devices
/// `used`, with any layer split and any distribution of the remaining micro-batches.
inline void for_each_pipeline(const IterationModel& model, const std::vector<int>& used, int stages,
                              int replicas, Plan& plan, int remaining_batches,
                              const std::function<void(const Plan&)>& use) {
  const int pipeline = static_cast<int>(plan.pipelines.size()), rest = replicas - pipeline - 1;
  for (int batches = rest == 0 ? remaining_batches : 1; batches <= remaining_batches - rest; ++batches) {
    std::vector<int> layer_counts;
    for_each_composition(model.stages.layers(), stages, layer_counts, [&] {
      Pipeline next{batches, {}};
      int first = 0;
      for (int stage = 0; stage < stages; ++stage) {
        const int last = first + layer_counts[at(stage)];
        next.stages.push_back({{first, last}, {used[at(pipeline * stages + stage)]}});
        first = last;
      }
      plan.pipelines.push_back(std::move(next));
      if (rest == 0)
        use(plan);
      else
        for_each_pipeline(model, used, stages, replicas, plan, remaining_batches - batches, use);
      plan.pipelines.pop_back();
    });
  }
}

/// Calls `use` with every plan whose pipelines are equally deep, with one device per stage.
inline void for_each_plan(const IterationModel& model, const std::function<void(const Plan&)>& use) {
  const int devices = model.problem.topology->size(), batches = micro_batch_count(model.problem.job);
  for (int stages = 1; stages <= std::min(devices, model.stages.layers()); ++stages)
    for (int replicas = 1; stages * replicas <= devices && replicas <= batches; ++replicas) {
      std::vector<int> order(at(devices));
      std::iota(order.begin(), order.end(), 0);
      std::set<std::vector<int>> seen;
      do {
        std::vector<int> used(order.begin(), order.begin() + stages * replicas);
        if (!seen.insert(used).second) continue;
        Plan plan{1, model.problem.job.execution, {}};
        for_each_pipeline(model, used, stages, replicas, plan, batches, use);
      } while (std::next_permutation(order.begin(), order.end()));
    }
}

/// Returns the minimum over all plans of one shape whose stages are these groups of devices, whose pipelines
/// have the same layers, and which fit in memory.
inline double min_of_shape(const IterationModel& model, const std::vector<std::vector<int>>& groups,
                           int stages, int replicas) {
  const Job& job = model.problem.job;
  double least = 1e300;
  std::vector<std::size_t> order(groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<std::size_t> before;
  std::vector<int> layers, batches;
  do {
    const std::vector<std::size_t> used(order.begin(), order.begin() + stages * replicas);
    if (used == before) continue;  // the rest of the order is unused
    before = used;
    for_each_composition(model.stages.layers(), stages, layers, [&] {
      for_each_composition(micro_batch_count(job), replicas, batches, [&] {
        Plan plan{1, job.execution, {}};
        for (int replica = 0; replica < replicas; ++replica) {
          Pipeline pipeline{batches[at(replica)], {}};
          int first = 0;
          for (int stage = 0; stage < stages; ++stage) {
            pipeline.stages.push_back(
                {{first, first + layers[at(stage)]}, groups[used[at(replica * stages + stage)]]});
            first += layers[at(stage)];
          }
          plan.pipelines.push_back(pipeline);
        }
        const IterationEstimate estimate = estimate_iteration(model, plan);
        if (estimate.deficit_bytes <= 0) least = std::min(least, estimate.iteration_s);
      });
    });
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

}  // namespace dtfm
