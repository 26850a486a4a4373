#include "planner/api/warm_start.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/model/model.hpp"
#include "core/plan/shards.hpp"
#include "core/plan/virtual_stages.hpp"

namespace dtfm::api {
namespace {

bool is_same(const search::PlanCandidate& a, const search::PlanCandidate& b) {
  return a.job == b.job && a.plan == b.plan;
}

double tokens_per_iteration(const Job& job) {
  return static_cast<double>(micro_batch_count(job)) * job.execution.micro_batch * sequence_length(job.model);
}

/// The time that the ranking used: simulated if possible.
double iteration_seconds(const FoundPlans& result, const search::PlanCandidate& candidate) {
  for (std::size_t i = 0; i < result.finalist_results.size(); ++i)
    if (is_same(result.plans[i], candidate)) return result.finalist_results[i].seconds;
  return candidate.iteration_s;
}

cost::MigrationCost migration_cost(const Problem& problem, const search::WarmStart& before,
                                   bool knows_network) {
  std::shared_ptr<const cost::NetworkCost> network;
  if (knows_network) network = std::make_shared<const cost::NetworkCost>(problem.topology, problem.constants);
  return {problem, std::move(network), before.plan, stage_chunks(before.job)};
}

void set_obstacle(const search::WarmStart& warm, const search::IterationSearchResult& found,
                  WarmStartResult& result) {
  const std::vector<int> devices = pipeline_major(warm.plan);
  result.devices = static_cast<int>(devices.size());
  result.devices_gone = static_cast<int>(std::count(devices.begin(), devices.end(), cost::no_device));
  if (!found.unchanged)
    result.obstacle =
        result.devices_gone > 0 ? ContinuationObstacle::devices_gone : ContinuationObstacle::not_allowed;
  else if (found.unchanged->deficit_bytes > 0)
    result.obstacle = ContinuationObstacle::out_of_memory;
}

void set_gain(const search::IterationSearchOptions& options, const FoundPlans& planned,
              WarmStartResult& result) {
  const search::PlanCandidate &best = planned.best(), &unchanged = *planned.found.unchanged;
  const double before_s = iteration_seconds(planned, unchanged), after_s = iteration_seconds(planned, best);
  if (!std::isfinite(before_s) || !std::isfinite(after_s)) return;
  result.unchanged_iteration_s = before_s;
  const Problem& problem = best.job->problem;
  const search::PlanScore score(options.objective, problem.topology);
  const auto weighted_cost = [&](double elapsed_s, const search::PlanCandidate& plan, double egress_usd) {
    return score.of(elapsed_s, score.total_weight(plan.plan), egress_usd);
  };
  const double before = weighted_cost(before_s, unchanged, unchanged.egress_usd);
  const double gain = before - weighted_cost(after_s, best, best.egress_usd);
  if (gain > 0)
    result.break_even_iterations =
        std::ceil(weighted_cost(best.migration.seconds, best, best.migration.usd) / gain);
  const double unit = reported_unit(traits(options.objective), tokens_per_iteration(problem.job));
  result.gain = {gain * unit, before * unit};
}

}  // namespace

std::optional<ModelDifference> model_difference(const Job& from, const Job& to) {
  using Kind = ModelDifference::Kind;
  const std::vector<Layer> before = layer_chain(from), after = layer_chain(to);
  if (before.size() != after.size())
    return ModelDifference{Kind::layer_count, 0, static_cast<double>(before.size()),
                           static_cast<double>(after.size())};
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].parameters != after[i].parameters)
      return ModelDifference{Kind::parameters, i, before[i].parameters, after[i].parameters};
    if (before[i].tied_parameters != after[i].tied_parameters)
      return ModelDifference{Kind::tied_parameters, i, before[i].tied_parameters, after[i].tied_parameters};
  }
  return std::nullopt;
}

search::WarmStart warm_start(const RunningPlan& running, const Topology& topology, double horizon_s) {
  std::map<std::string, int> device_of;
  for (int device = 0; device < topology.size(); ++device)
    device_of[topology.devices[at(device)].id] = device;
  search::WarmStart warm{running.plan, running.job, horizon_s};
  warm.job.execution = running.plan.execution;
  for (Pipeline& pipeline : warm.plan.pipelines)
    for (Stage& stage : pipeline.stages)
      for (int& device : stage.devices) {
        const auto now = device_of.find(running.ids[at(device)]);
        device = now == device_of.end() ? cost::no_device : now->second;
      }
  return warm;
}

MigrationSummary summarize_migration(const cost::Migration& migration) {
  MigrationSummary summary{migration.bytes, migration.checkpoint_bytes, migration.seconds, migration.usd, {}};
  for (const cost::MigratedPart& part : migration.parts) {
    if (summary.devices.empty() || summary.devices.back().device != part.to)
      summary.devices.push_back({part.to, {}, 0, 0, {}});
    MigrationSummary::Device& device = summary.devices.back();
    // A tied matrix is listed apart from its layer.
    const auto contains = [&](const std::pair<int, int>& it) {
      return it.first <= part.layers.first && part.layers.second <= it.second;
    };
    if (std::none_of(device.layers.begin(), device.layers.end(), contains))
      device.layers.push_back(part.layers);
    (part.from == cost::no_device ? device.checkpoint_bytes : device.bytes) += part.bytes;
    if (part.from == cost::unspecified_source) continue;
    if (std::find(device.sources.begin(), device.sources.end(), part.from) == device.sources.end())
      device.sources.push_back(part.from);
  }
  return summary;
}

std::vector<std::string> source_names(const MigrationSummary::Device& device, const Topology& topology) {
  std::vector<std::string> names;
  for (const int source : device.sources)
    names.push_back(source == cost::no_device ? "a checkpoint" : topology.devices[at(source)].id);
  return names;
}

double migration_steps(const Problem& problem, const search::WarmStart& running, int devices) {
  return migration_cost(problem, running, true).max_steps(devices);
}

void check_migration_steps(const RunningPlan& running, double steps, int devices) {
  if (steps > max_migration_steps)
    throw Error(running.name,
                fmt::format("has stages of too many devices, {} at most: finding the sources of the state "
                            "of {} device{} would take {:.2g} steps, more than {:.0e}",
                            tensor_degrees(running.plan).back(), devices, devices == 1 ? "" : "s", steps,
                            max_migration_steps));
}

PlanMigration migration_between(const Problem& problem, const search::WarmStart& before,
                                const search::WarmStart& after, bool knows_network) {
  const cost::MigrationCost cost = migration_cost(problem, before, knows_network);
  PlanMigration migration;
  if (knows_network) {
    migration.steps = cost.max_steps(static_cast<int>(pipeline_major(after.plan).size()));
    if (migration.steps > max_migration_steps) return migration;
  }
  migration.summary = summarize_migration(cost.of(after.plan, stage_chunks(after.job)));
  if (!knows_network) migration.summary->seconds.reset();
  return migration;
}

WarmStartResult compare_with_running(const search::IterationSearchOptions& options,
                                     const FoundPlans& result) {
  const search::WarmStart& warm = options.warm.value();
  const search::PlanCandidate& best = result.best();
  WarmStartResult compared;
  compared.keeps_plan = result.found.unchanged && is_same(*result.found.unchanged, best);
  set_obstacle(warm, result.found, compared);
  const cost::MigrationCost cost(best.job->problem, best.job->model.shared_network, warm.plan,
                                 stage_chunks(warm.job));
  compared.migration = summarize_migration(cost.of(best.plan, best.job->model.chunks));
  if (compared.obstacle == ContinuationObstacle::none) set_gain(options, result, compared);
  return compared;
}

}  // namespace dtfm::api
