#include "core/plan/plan.hpp"

#include <algorithm>

#include "core/base/index.hpp"
#include "core/plan/job.hpp"

namespace dtfm {
namespace {

/// Index of the first element of part `part` if `count` elements are cut into `parts` parts whose sizes
/// differ by at most one.
int part_begin(int count, int parts, int part) {
  return static_cast<int>(static_cast<long long>(count) * part / parts);
}

void append(std::vector<int>& list, const std::vector<int>& other) {
  list.insert(list.end(), other.begin(), other.end());
}

}  // namespace

long long total_micro_batches(const Plan& plan) {
  long long sum = 0;
  for (const Pipeline& pipeline : plan.pipelines) sum += pipeline.micro_batches;
  return sum;
}

int depth(const Plan& plan) {
  std::size_t max_depth = 0;
  for (const Pipeline& pipeline : plan.pipelines) max_depth = std::max(max_depth, pipeline.stages.size());
  return static_cast<int>(max_depth);
}

int min_depth(const Plan& plan) {
  std::size_t least = at(depth(plan));
  for (const Pipeline& pipeline : plan.pipelines) least = std::min(least, pipeline.stages.size());
  return static_cast<int>(least);
}

std::vector<std::vector<int>> stage_groups(const Plan& plan) {
  std::vector<std::vector<int>> groups(at(depth(plan)));
  for (const Pipeline& pipeline : plan.pipelines)
    for (std::size_t stage = 0; stage < pipeline.stages.size(); ++stage)
      append(groups[stage], pipeline.stages[stage].devices);
  return groups;
}

std::vector<int> pipeline_major(const Plan& plan) {
  std::vector<int> devices;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages) append(devices, stage.devices);
  return devices;
}

std::vector<int> stage_major(const Plan& plan) {
  std::vector<int> devices;
  for (const auto& group : stage_groups(plan)) append(devices, group);
  return devices;
}

std::pair<int, int> even_split(int layers, int stages, int stage) {
  return {part_begin(layers, stages, stage), part_begin(layers, stages, stage + 1)};
}

Plan plan_from_placement(const Placement& placement, const Job& job) {
  const int micro_batches = micro_batch_count(job);
  Plan plan{job.parallelism.tensor, job.execution, {}};
  for (int replica = 0; replica < placement.replicas(); ++replica) {
    const auto [begin, end] = even_split(micro_batches, placement.replicas(), replica);
    Pipeline pipeline{end - begin, {}};
    for (int stage = 0; stage < placement.stages(); ++stage)
      pipeline.stages.push_back(
          {even_split(layer_count(job.model), placement.stages(), stage), {placement.at(stage, replica)}});
    plan.pipelines.push_back(std::move(pipeline));
  }
  return plan;
}

}  // namespace dtfm
