#include "core/plan/plan.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/cluster/topology.hpp"
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

/// Throws Error unless all pipelines have the same stages as the first one, with one device each.
void check_stages(const Plan& plan, const std::string& file) {
  const auto& first = plan.pipelines.front().stages;
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
    const auto& stages = plan.pipelines[p].stages;
    if (stages.size() != first.size())
      throw Error(
          file,
          fmt::format("/pipelines/{}: {} stage{} where /pipelines/0 has {}; comm-cost requires equally many "
                      "stages in all pipelines",
                      p, stages.size(), stages.size() == 1 ? "" : "s", first.size()));
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const std::string where = fmt::format("/pipelines/{}/stages/{}", p, s);
      if (stages[s].devices.size() != 1)
        throw Error(file, fmt::format("{}/devices: {} devices; comm-cost supports only one device per stage",
                                      where, stages[s].devices.size()));
      if (stages[s].layers != first[s].layers)
        throw Error(
            file,
            fmt::format("{}/layers: [{}, {}] where /pipelines/0 has [{}, {}]; comm-cost requires the same "
                        "layers in this stage of all pipelines",
                        where, stages[s].layers.first, stages[s].layers.second, first[s].layers.first,
                        first[s].layers.second));
    }
  }
}

void check_all_used(const Placement& placement, const Topology& topology, const std::string& file) {
  std::vector<bool> used(topology.devices.size());
  for (const int device : placement.devices()) used[at(device)] = true;
  std::vector<std::string> unused;
  for (std::size_t device = 0; device < used.size(); ++device)
    if (!used[device]) unused.push_back(topology.devices[device].id);
  if (unused.empty()) return;
  const std::size_t count = unused.size();
  unused.resize(std::min<std::size_t>(count, 5));
  throw Error(file,
              fmt::format("/pipelines: comm-cost requires every device, but {} of {} {} in no pipeline: {}{}",
                          count, topology.size(), count == 1 ? "is" : "are", fmt::join(unused, ", "),
                          count > unused.size() ? ", …" : ""));
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

int recomputed_layers(const ExecutionConfig& execution, const Stage& stage, int layers) {
  const bool is_per_stage = traits(execution.recomputation).is_per_stage();
  return is_per_stage && stage.recompute_layers ? std::min(layers, *stage.recompute_layers)
                                                : execution.recomputed_layers(layers);
}

std::vector<PlannedOrder> planned_orders(const Pipeline& pipeline, Schedule schedule) {
  const ScheduleTraits& row = traits(schedule);
  std::vector<PlannedOrder> result;
  for (const Stage& stage : pipeline.stages) {
    if (row.has_planned_warm_up) result.push_back({.warm_up = stage.warm_up});
    if (row.has_planned_passes) result.push_back({.passes = stage.passes});
  }
  return result;
}

Plan without_planned_orders(Plan plan) {
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages) {
      stage.warm_up.reset();
      stage.passes.clear();
      stage.recompute_layers.reset();
    }
  return plan;
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

Placement balanced_placement(const Plan& plan, const Topology& topology, const std::string& file) {
  check_stages(plan, file);
  Placement placement(static_cast<int>(plan.pipelines.front().stages.size()),
                      static_cast<int>(plan.pipelines.size()));
  for (int stage = 0; stage < placement.stages(); ++stage)
    for (int replica = 0; replica < placement.replicas(); ++replica)
      placement.at(stage, replica) = plan.pipelines[at(replica)].stages[at(stage)].devices.front();
  check_all_used(placement, topology, file);
  return placement;
}

}  // namespace dtfm
