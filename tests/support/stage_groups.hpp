// Plans whose stages are groups of devices.
#pragma once

#include "core/base/index.hpp"
#include "core/plan/plan.hpp"
#include "tests/support/small_problems.hpp"

namespace dtfm {

/// Returns `hosts` hosts of one site with `gpus` GPUs each.
inline Topology hosts_with(int hosts, int gpus, Link inside, Link between) {
  Topology topology = flat_topology({hosts * gpus}, between, between);
  for (int i = 0; i < topology.size(); ++i) topology.devices[at(i)].host = i / gpus;
  auto& rules = std::get<RuleLinks>(topology.links);
  rules.links.push_back(inside);
  rules.same_host(0, 0) = 2;
  return topology;
}

/// Returns a plan that assigns the devices in order: the first stages · devices to pipeline 0, the first
/// `devices` of these to its stage 0.
inline Plan staged_plan(const Job& job, int stages, int replicas, int devices, int micro_batches) {
  Plan plan = plan_of(job, stages, replicas, micro_batches);
  plan.tensor = devices / job.execution.token_parts();
  int next = 0;
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages) {
      stage.devices.clear();
      for (int rank = 0; rank < devices; ++rank) stage.devices.push_back(next++);
    }
  return plan;
}

}  // namespace dtfm
