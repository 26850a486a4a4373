#include "planner/export/export_requirements.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/collectives/collective.hpp"
#include "core/plan/sharing_replicas.hpp"
#include "core/plan/target.hpp"
#include "core/plan/stage_mesh.hpp"
#include "core/plan/virtual_stages.hpp"

namespace dtfm::exporter {
namespace {

std::vector<int> layers_per_stage(const Pipeline& pipeline) {
  std::vector<int> counts;
  for (const Stage& stage : pipeline.stages) counts.push_back(stage.layers.second - stage.layers.first);
  return counts;
}

const Pipeline& first_pipeline(const ExportBundle& bundle) {
  return bundle.plan.pipelines.front();
}

bool has_instances(const ExportBundle& bundle) {
  const ExecutionConfig& execution = bundle.job.execution;
  return traits(execution.optimizer_sharding).optimizer && traits(execution.gradient_sync).has_instances;
}

Plan plan_at_sites(const ExportBundle& bundle) {
  if (!bundle.topology)
    reject(bundle.job.target ? name_of(*bundle.job.target) : "export",
           fmt::format("gradient_sync {} depends on the sites of the network; add --topology FILE",
                       name_of(bundle.job.execution.gradient_sync)));
  return plan_on_topology(bundle);
}

}  // namespace

void reject(std::string_view target, const std::string& what) {
  throw NotRunnable(fmt::format("{}: {}", target, what));
}

std::optional<std::size_t> find_stage_across_machines(const ExportBundle& bundle) {
  const auto host_of = [&](int device) -> const std::string& { return bundle.locations[at(device)].host; };
  for (const Pipeline& pipeline : bundle.plan.pipelines)
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
      const std::vector<int>& devices = pipeline.stages[s].devices;
      const std::size_t tensor = at(stage_mesh(bundle.job.execution, devices.size()).tensor);
      for (std::size_t i = 0; i < devices.size(); ++i)
        if (host_of(devices[i]) != host_of(devices[i - i % tensor])) return s;
    }
  return std::nullopt;
}

bool uses_nccl_rings(const ExportBundle& bundle) {
  return bundle.job.target && traits(*bundle.job.target).nccl_chooses_all_reduce &&
         (bundle.plan.pipelines.size() > 1 || bundle.job.execution.token_parts() > 1) &&
         (traits(bundle.job.execution.gradient_sync).roles == MemberRoles::ring || has_instances(bundle));
}

void group_instances(ExportBundle& bundle) {
  if (!has_instances(bundle)) return;
  const Plan placed = plan_at_sites(bundle);
  std::vector<Pipeline> pipelines;
  std::map<std::vector<int>, std::vector<std::size_t>> known;  // by sites
  for (std::size_t i = 0; i < placed.pipelines.size(); ++i)
    known[pipeline_sites(*bundle.topology, placed.pipelines[i])].push_back(i);
  for (std::size_t i = 0; i < placed.pipelines.size(); ++i) {
    const auto& same = known[pipeline_sites(*bundle.topology, placed.pipelines[i])];
    if (same.front() != i) continue;  // they follow the first one
    for (const std::size_t it : same) pipelines.push_back(bundle.plan.pipelines[it]);
  }
  bundle.plan.pipelines = std::move(pipelines);
  bundle.assignments = assign_ranks(bundle.plan, bundle.job, bundle.order);
}

int stage_count(const ExportBundle& bundle) {
  return static_cast<int>(first_pipeline(bundle).stages.size());
}

int replica_count(const ExportBundle& bundle) {
  return static_cast<int>(bundle.plan.pipelines.size());
}

std::vector<int> layer_counts(const ExportBundle& bundle) {
  return layers_per_stage(first_pipeline(bundle));
}

std::vector<std::pair<int, int>> virtual_stages(const ExportBundle& bundle) {
  return virtual_stage_layers(first_pipeline(bundle), stage_chunks(bundle.job));
}

int micro_batches_per_pipeline(const ExportBundle& bundle) {
  return first_pipeline(bundle).micro_batches;
}

int micro_batches_per_flush(const ExportBundle& bundle) {
  return std::min(bundle.job.execution.flush.value_or(micro_batches_per_pipeline(bundle)),
                  micro_batches_per_pipeline(bundle));
}

int instance_count(const ExportBundle& bundle) {
  if (!has_instances(bundle)) return 1;
  const Plan placed = plan_at_sites(bundle);
  return replica_count(bundle) / sharing_replicas(*bundle.topology, placed);
}

int tensor_degree(const ExportBundle& bundle) {
  return stage_mesh(bundle.job.execution, first_pipeline(bundle).stages.front().devices.size()).tensor;
}

}  // namespace dtfm::exporter
