#include "planner/export/export_bundle.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/virtual_stages.hpp"

namespace dtfm::exporter {

std::vector<RankAssignment> assign_ranks(const Plan& plan, const Job& job, RankOrder order) {
  std::vector<RankAssignment> assignments;
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
    const auto layers = layers_by_stage(plan.pipelines[p], stage_chunks(job));
    const std::size_t groups = at(plan.execution.stage_data.value_or(1));
    for (std::size_t group = 0; group < groups; ++group)
      for (std::size_t s = 0; s < layers.size(); ++s) {
        const std::vector<int>& devices = plan.pipelines[p].stages[s].devices;
        const std::size_t own = devices.size() / groups, tensor = own / at(plan.execution.context);
        for (std::size_t t = 0; t < own; ++t)
          assignments.push_back({devices[group * own + t], static_cast<int>(p * groups + group),
                                 static_cast<int>(s), static_cast<int>(t % tensor), layers[s],
                                 static_cast<int>(t / tensor)});
      }
  }
  if (order == RankOrder::stage_major)
    std::stable_sort(assignments.begin(), assignments.end(),
                     [](const RankAssignment& a, const RankAssignment& b) { return a.stage < b.stage; });
  return assignments;
}

std::vector<int> micro_batch_counts(const Plan& plan) {
  std::vector<int> counts;
  for (const Pipeline& pipeline : plan.pipelines) counts.push_back(pipeline.micro_batches);
  return counts;
}

Plan plan_on_topology(const ExportBundle& bundle) {
  DTFM_ASSERT(bundle.topology);
  Plan plan = bundle.plan;
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages)
      for (int& device : stage.devices) device = bundle.topology_device[at(device)];
  return plan;
}

std::map<std::string, std::vector<int>> ranks_by_address(const ExportBundle& bundle) {
  std::map<std::string, std::vector<int>> ranks;
  for (int rank = 0; rank < bundle.world_size(); ++rank) ranks[bundle.location(rank).address].push_back(rank);
  return ranks;
}

}  // namespace dtfm::exporter
