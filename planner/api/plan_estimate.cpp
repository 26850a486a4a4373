#include "planner/api/plan_estimate.hpp"

#include <algorithm>
#include <cmath>

#include "planner/api/time_limit.hpp"
#include "planner/cost/bounds/iteration_bound.hpp"
#include "planner/cost/bounds/weighted_time_bound.hpp"

namespace dtfm::api {
namespace {

/// Returns a lower bound of the objectives that weight time by the devices in use. Every plan within the
/// limits has at least `min_devices`.
PlanBound weighted_bound(Objective objective, const search::PlanCandidate& best, int min_devices,
                         double iteration_s) {
  const Topology& topology = best.job->problem.topology;
  const search::PlanScore score(objective, topology);
  std::vector<double> weight;
  for (int device = 0; device < topology.size(); ++device) weight.push_back(score.weight(device));
  const PlanEstimate estimate = estimate_plan(best);
  const double tokens = estimate.iteration_s * estimate.tokens_per_s;
  const double unit = reported_unit(traits(objective), tokens);
  return {cost::min_weighted_time(best.job->model, weight, min_devices) * unit,
          score.of(iteration_s, score.total_weight(best.plan), best.egress_usd) * unit,
          "every layer on the device where it costs least, without communication and waiting"};
}

}  // namespace

PlanEstimate estimate_plan(const search::PlanCandidate& candidate) {
  const Problem& problem = candidate.job->problem;
  const cost::IterationEstimate estimate = cost::estimate_iteration(candidate.job->model, candidate.plan);
  const double sequences =
      static_cast<double>(total_micro_batches(candidate.plan)) * problem.job.execution.micro_batch;
  const double tokens = sequences * sequence_length(problem.job.model);
  PlanEstimate result;
  result.iteration_s = estimate.iteration_s;
  if (result.iteration_s > 0) {  // 0: a plan without micro-batches
    result.tokens_per_s = tokens / result.iteration_s;
    result.model_flops_per_s = sequences * candidate.job->model.stages.model_flops() / result.iteration_s;
  }
  if (const auto price = search::price_of(problem.topology, candidate.plan); price && tokens > 0) {
    result.egress_usd_per_million_tokens = candidate.egress_usd / tokens * 1e6;
    result.usd_per_million_tokens =
        price->value() / seconds_per_hour / result.tokens_per_s * 1e6 + result.egress_usd_per_million_tokens;
  }
  result.pipelines_s = estimate.pipelines_s;
  result.exposed_sync_s = std::max(0.0, estimate.gradient_sync_end_s - estimate.pipelines_s);
  result.update_s = estimate.update_s;
  result.overhead_s = estimate.overhead_s;
  result.memory = cost::device_memory(candidate.job->model, candidate.plan);
  return result;
}

std::optional<cost::PlanExplanation> explain_plan(const search::PlanCandidate& candidate, const Work& work) {
  try {
    return cost::explain_plan({candidate.job->problem, candidate.plan}, candidate.job->model.shared_network,
                              work);
  } catch (const WorkStopped&) {
    return std::nullopt;
  }
}

double first_scenario_seconds(const search::PlanCandidate& candidate,
                              const std::vector<SimulatedTimes>& simulated) {
  if (!simulated.empty() && std::isfinite(simulated.front().mean_s)) return simulated.front().mean_s;
  return estimate_plan(candidate).iteration_s;
}

std::optional<PlanBound> lower_bound(const search::IterationSearchOptions& options,
                                     const search::PlanCandidate& best,
                                     const std::vector<SimulatedTimes>& simulated) {
  constexpr int max_layers = 2000;
  const cost::IterationModel& model = best.job->model;
  // Bounds assume an iteration barrier: overlapping iterations may take less time.
  if (model.stages.layers() > max_layers || !best.plan.execution.iteration_barrier) return std::nullopt;
  const auto& [stages, replicas] = options.limits;
  std::optional<cost::BoundInputs> inputs;
  try {
    inputs.emplace(cost::bound_inputs(model, until_time_limit(options.common, bound_grace_s).stop));
  } catch (const WorkStopped&) {
    return std::nullopt;
  }
  const cost::IterationBound time_bound = cost::iteration_bound(*inputs, {stages, replicas});
  if (!time_bound.fits) return std::nullopt;
  const double iteration_s = first_scenario_seconds(best, simulated);
  if (!traits(options.objective).device_weight)
    return PlanBound{time_bound.value, iteration_s, time_bound.method};
  const int groups = stages.value_or(cost::min_stages(*inputs)) * replicas.value_or(1);
  return weighted_bound(options.objective, best, groups * model.by_degree.front().devices(), iteration_s);
}

}  // namespace dtfm::api
