#include "planner/cost/iteration_time/planned_order.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/index.hpp"
#include "core/plan/shards.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"
#include "planner/cost/iteration_time/greedy_order.hpp"
#include "planner/cost/iteration_time/warm_up.hpp"

namespace dtfm::cost {
namespace {

/// In a uniform plan, a stage recomputes as many layers as memory requires in any pipeline.
Plan with_recompute_layers(const IterationEstimator& estimator, bool uniform, Plan plan) {
  std::vector<int> most;
  for (std::size_t i = 0; i < plan.pipelines.size(); ++i) {
    const std::vector<int>& recomputed = estimator.work(static_cast<int>(i)).recomputed;
    Pipeline& pipeline = plan.pipelines[i];
    most.resize(std::max(most.size(), pipeline.stages.size()));
    for (std::size_t stage = 0; stage < pipeline.stages.size(); ++stage) {
      int count = 0;
      for (std::size_t chunk = stage; chunk < recomputed.size(); chunk += pipeline.stages.size())
        count = std::max(count, recomputed[chunk]);
      pipeline.stages[stage].recompute_layers = count;
      most[stage] = std::max(most[stage], count);
    }
  }
  if (uniform)
    for (Pipeline& pipeline : plan.pipelines)
      for (std::size_t stage = 0; stage < pipeline.stages.size(); ++stage)
        pipeline.stages[stage].recompute_layers = most[stage];
  return plan;
}

Plan with_warm_ups(const IterationEstimator& estimator, bool uniform, Plan plan) {
  std::vector<int> longest, most;
  for (std::size_t i = 0; i < plan.pipelines.size(); ++i) {
    const PipelineWork& work = estimator.work(static_cast<int>(i));
    Pipeline& pipeline = plan.pipelines[i];
    if (work.micro_batches == 0 || !work.warm_ups.empty()) continue;
    const std::vector<int> chosen = choose_warm_ups(work);
    longest.resize(chosen.size());
    most.resize(chosen.size(), work.micro_batches);
    for (std::size_t stage = 0; stage < chosen.size(); ++stage) {
      pipeline.stages[stage].warm_up = chosen[stage];
      longest[stage] = std::max(longest[stage], chosen[stage]);
      most[stage] = std::max(static_cast<int>(chosen.size() - stage) - 1,
                             std::min(most[stage], work.max_warm_ups[stage]));
    }
  }
  if (!uniform) return plan;
  for (std::size_t stage = 0; stage < longest.size(); ++stage) {
    longest[stage] = std::min(longest[stage], most[stage]);
    if (stage > 0) longest[stage] = std::min(longest[stage], longest[stage - 1] - 1);
    for (Pipeline& pipeline : plan.pipelines) pipeline.stages[stage].warm_up = longest[stage];
  }
  return plan;
}

/// Raises the times of `work` to those of another pipeline with as many stages, and lowers its limits.
void include(const PipelineWork& other, PipelineWork& work) {
  const auto raise = [](std::vector<double>& own, const std::vector<double>& its) {
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = std::max(own[i], its[i]);
  };
  const auto raise_hops = [](std::vector<HopTime>& own, const std::vector<HopTime>& its) {
    for (std::size_t i = 0; i < own.size(); ++i) {
      own[i].occupancy_s = std::max(own[i].occupancy_s, its[i].occupancy_s);
      own[i].latency_s = std::max(own[i].latency_s, its[i].latency_s);
    }
  };
  raise(work.forward_s, other.forward_s);
  raise(work.backward_s, other.backward_s);
  raise(work.weight_gradient_s, other.weight_gradient_s);
  raise_hops(work.forward_hops, other.forward_hops);
  raise_hops(work.backward_hops, other.backward_hops);
  for (std::size_t i = 0; i < work.max_warm_ups.size(); ++i)
    work.max_warm_ups[i] = std::min(work.max_warm_ups[i], other.max_warm_ups[i]);
}

Plan with_passes(const IterationEstimator& estimator, bool uniform, Plan plan) {
  const auto set = [](std::vector<PassOrder> passes, Pipeline& pipeline) {
    for (std::size_t stage = 0; stage < passes.size(); ++stage)
      pipeline.stages[stage].passes = std::move(passes[stage]);
  };
  if (uniform) {
    PipelineWork slowest = estimator.work(0);
    for (std::size_t i = 1; i < plan.pipelines.size(); ++i)
      include(estimator.work(static_cast<int>(i)), slowest);
    if (slowest.micro_batches == 0) return plan;
    const std::vector<PassOrder> passes = search_passes(slowest);
    for (Pipeline& pipeline : plan.pipelines) set(passes, pipeline);
    return plan;
  }
  std::vector<std::pair<const PipelineWork*, std::vector<PassOrder>>> known;  // many pipelines are the same
  for (std::size_t i = 0; i < plan.pipelines.size(); ++i) {
    const PipelineWork& work = estimator.work(static_cast<int>(i));
    if (work.micro_batches == 0 || !work.passes.empty()) continue;
    auto same = std::find_if(known.begin(), known.end(), [&](const auto& it) { return *it.first == work; });
    if (same == known.end()) same = known.insert(known.end(), {&work, search_passes(work)});
    set(same->second, plan.pipelines[i]);
  }
  return plan;
}

bool has_recompute_layers(const Plan& plan) {
  return !traits(plan.execution.recomputation).is_per_stage() ||
         plan.pipelines.front().stages.front().recompute_layers.has_value();
}

/// Whether the plan leaves nothing to choose about the order of its stages.
bool has_planned_orders(const Plan& plan) {
  const ScheduleTraits& schedule = traits(plan.execution.schedule);
  return std::all_of(plan.pipelines.begin(), plan.pipelines.end(), [&](const Pipeline& it) {
    const Stage& first = it.stages.front();
    return (!schedule.has_planned_warm_up || first.warm_up.has_value()) &&
           (!schedule.has_planned_passes || !first.passes.empty());
  });
}

}  // namespace

Plan with_planned_orders(const IterationModel& model, Plan plan) {
  if (has_recompute_layers(plan) && has_planned_orders(plan)) return plan;
  const bool uniform = model.problem.job.parallelism.uniform_pipelines;
  IterationEstimator estimator(model);
  estimator.estimate(plan);
  if (!has_recompute_layers(plan)) {
    plan = with_recompute_layers(estimator, uniform, std::move(plan));
    if (has_planned_orders(plan)) return plan;
    estimator.estimate(plan);
  }
  const auto choose = traits(model.schedule).has_planned_passes ? with_passes : with_warm_ups;
  return choose(estimator, uniform, std::move(plan));
}

Plan with_planned_orders(Problem problem, Plan plan) {
  if (has_recompute_layers(plan) && has_planned_orders(plan)) return plan;
  problem.job.automatic = {};
  problem.job.parallelism.tensor = plan.tensor;
  problem.job.execution = plan.execution;
  const auto network = std::make_shared<const NetworkCost>(problem.topology, problem.constants);
  const IterationModel model(problem, stage_sizes(plan), network);
  return with_planned_orders(model, std::move(plan));
}

}  // namespace dtfm::cost
