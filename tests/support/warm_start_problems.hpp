// Plans running on small problems, and changes to their devices.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "core/base/index.hpp"
#include "planner/search/iteration_time/iteration_search.hpp"
#include "planner/search/iteration_time/warm_start.hpp"
#include "tests/support/heterogeneous_hosts.hpp"
#include "tests/support/small_problems.hpp"

namespace dtfm {
using namespace cost;
using namespace search;

/// Layers take 1 s forward and 2 s backward; messages take 1 s inside a site and 4 s between sites. The 1,000
/// parameters of a layer are 12,000 bytes to migrate: 120 s inside a site, 480 s between sites.
inline Problem small_problem(const std::vector<int>& per_site, int layers, int micro_batches) {
  Problem problem{
      flat_topology(per_site, link_of(0.01, 100), link_of(0.1, 25)), chain_job(layers, 1000, 100), {}, {}};
  problem.job.training.global_batch = micro_batches;
  problem.job.execution.compression.gradients = 0.001;
  return problem;
}

inline IterationSearchOptions search_options(long long evaluations = 4'000) {
  IterationSearchOptions options;
  options.common.evaluations = evaluations;
  return options;
}

inline IterationSearchResult warm_search(const Problem& problem, const Plan& plan, double horizon_s,
                                         IterationSearchOptions options = search_options()) {
  options.warm = WarmStart{plan, problem.job, horizon_s};
  return search_iteration(problem, options);
}

inline std::set<int> devices_of(const Plan& plan) {
  const auto all = pipeline_major(plan);
  return {all.begin(), all.end()};
}

/// Returns the plan after device `gone` has left and the devices after it have been renumbered.
inline Plan without_device(Plan plan, int gone) {
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages)
      for (int& device : stage.devices)
        device = device == gone ? no_device : device - (device > gone ? 1 : 0);
  return plan;
}

inline Topology without_device(const Topology& topology, int gone) {
  Topology result = topology;
  result.devices.erase(result.devices.begin() + gone);
  auto& rules = std::get<RuleLinks>(result.links);
  rules.link_class.erase(rules.link_class.begin() + gone);
  return result;
}

/// Returns two pipelines of two stages, each inside one site; device 4, in the first site, is unused.
inline Plan two_pipelines(const Job& job) {
  Plan plan = plan_of(job, 2, 2, 4);
  plan.pipelines[1].stages[0].devices = {3};
  plan.pipelines[1].stages[1].devices = {4};
  return plan;
}

struct DecidedWithMigration {
  std::shared_ptr<DecidedJob> job;
  std::shared_ptr<const MigrationCost> migration;
};

/// Returns a decided problem with these tensor-parallel groups, for a warm start from `before`.
inline DecidedWithMigration make_decided(const Problem& problem, const std::vector<int>& tensors,
                                         const std::vector<std::vector<int>>& tensor_groups,
                                         const Plan& before) {
  const auto network = std::make_shared<const NetworkCost>(problem.topology, problem.constants);
  DecidedWithMigration result;
  result.job = std::make_shared<DecidedJob>(problem, problem.job, tensors, network);
  result.job->tensor_groups = tensor_groups;
  result.migration = std::make_shared<const MigrationCost>(problem, network, before, 1);
  return result;
}

inline std::vector<std::vector<int>> one_by_one(int devices) {
  std::vector<std::vector<int>> tensor_groups;
  for (int device = 0; device < devices; ++device) tensor_groups.push_back({device});
  return tensor_groups;
}

/// Returns two pipelines of two stages on devices 0 … 3, of which 0 and 3 have left and others have joined.
inline Plan plan_missing_two_devices(const Job& job) {
  Plan plan = plan_of(job, 2, 2, 4);
  plan.pipelines[0].stages[0].devices = plan.pipelines[1].stages[1].devices = {no_device};
  return plan;
}

/// Returns hosts of 2, 2, 1 and 1 devices in one site; the first two can hold stages of two devices.
inline Problem heterogeneous_hosts() {
  Problem problem = host_problem({2, 2, 1, 1}, 12);
  problem.job.parallelism.tensor = 2;
  return problem;
}

inline Plan heterogeneous_plan(const Job& job) {
  Plan plan = plan_of(job, 2, 2, 6);
  plan.tensor = 2;
  plan.pipelines[0].stages[0].devices = {0, 1};
  plan.pipelines[0].stages[1].devices = {2, 3};
  plan.pipelines[1].stages[0].devices = {4};
  plan.pipelines[1].stages[1].devices = {5};
  return plan;
}

}  // namespace dtfm
