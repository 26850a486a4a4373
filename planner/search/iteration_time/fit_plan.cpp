#include "planner/search/iteration_time/fit_plan.hpp"

#include <algorithm>
#include <utility>

#include "core/base/divisors.hpp"
#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "core/plan/settings.hpp"
#include "core/plan/shards.hpp"
#include "core/plan/target.hpp"
#include "planner/cost/iteration_time/layer_split.hpp"
#include "planner/cost/iteration_time/planned_order.hpp"
#include "planner/cost/iteration_time/warm_up.hpp"
#include "planner/search/iteration_time/decisions.hpp"

namespace dtfm::search {
namespace {

// Chosen by hand.
constexpr int cut_refinement_passes = 2, max_recut_layers = 200;
// Maximum stages · layers² of a split that is optimized (some 0.1 s); larger ones are split evenly.
constexpr double max_split_steps = 1e6;

/// Distributes micro-batches so that the slowest pipeline ends earliest.
Plan balance_micro_batches(PlanEvaluator& evaluator, Plan plan) {
  const DecidedJob& job = *evaluator.job();
  if (requires_uniform_pipelines(job)) return plan;
  const std::vector<int> balanced =
      cost::balanced_micro_batches(pipeline_paces(plan, evaluator.estimate_pipelines(plan)),
                                   batch_step(job, depth(plan)), static_cast<int>(total_micro_batches(plan)));
  if (std::find(balanced.begin(), balanced.end(), 0) != balanced.end())
    return plan;  // fewer pipelines are another shape
  for (std::size_t i = 0; i < balanced.size(); ++i) plan.pipelines[i].micro_batches = balanced[i];
  return plan;
}

/// Gives all pipelines the best common layer split, or each of them its own best one.
Plan split_layers(const DecidedJob& job, Plan plan, bool in_common) {
  std::vector<cost::StageChain> chains;
  for (const Pipeline& pipeline : plan.pipelines) {
    chains.push_back({{}, pipeline.micro_batches});
    for (const Stage& stage : pipeline.stages) chains.back().devices.push_back(stage.devices);
  }
  cost::LayerSplit split;
  const int replicas = job.model.replicas_of(plan);
  if (in_common) split = cost::best_layer_split(job.model, chains, replicas);
  for (std::size_t i = 0; i < chains.size(); ++i) {
    if (!in_common) split = cost::best_layer_split(job.model, {chains[i]}, replicas);
    for (std::size_t stage = 0; stage < split.layers.size(); ++stage)
      plan.pipelines[i].stages[stage].layers = split.layers[stage];
  }
  return plan;
}

/// True if all devices and degrees are equal, so that an even distribution of micro-batches is good.
bool is_homogeneous(const Plan& plan, const DecidedJob& job) {
  const int kind = job.model.stages.kind_of(plan.pipelines.front().stages.front().devices.front());
  for (const int device : pipeline_major(plan))
    if (job.model.stages.kind_of(device) != kind) return false;
  return stage_sizes(plan).size() == 1;
}

/// Returns the energy above which no plan is better than `best`: infinity if `best` exceeds memory, because a
/// plan with higher energy may then be better.
double max_energy_of_better(const PlanCandidate& best) {
  return best.deficit_bytes > 0 ? infinity : energy_of(best);
}

}  // namespace

std::vector<cost::PipelinePace> pipeline_paces(const Plan& plan, const cost::IterationEstimate& estimate) {
  std::vector<cost::PipelinePace> paces;
  for (std::size_t i = 0; i < plan.pipelines.size(); ++i) {
    const double steady_s = estimate.steady_s[i];
    paces.push_back({estimate.pipeline_s[i] - plan.pipelines[i].micro_batches * steady_s, steady_s});
  }
  return paces;
}

int fit_flush_interval(const DecidedJob& job, const Plan& plan) {
  const int max_flush = cost::max_fitting_flush(job.model, plan);
  const int micro_batches = plan.pipelines.front().micro_batches;
  if (!requires_uniform_pipelines(job) || max_flush >= micro_batches || max_flush < 1) return max_flush;
  const int divisor = largest_divisor(micro_batches, max_flush);
  return 2LL * divisor >= max_flush ? divisor : max_flush;
}

PlanEvaluator::PlanEvaluator(std::shared_ptr<const DecidedJob> job, const PlanScore& score)
    : job_(std::move(job)), score_(score), estimator_(job_->model) {
  if (score.migration()) migration_.emplace(*score.migration(), job_->model.chunks);
}

PlanCandidate PlanEvaluator::evaluate(Plan plan) {
  return *evaluate_up_to(infinity, std::move(plan));
}

std::optional<PlanCandidate> PlanEvaluator::evaluate_up_to(double max_energy, Plan plan) {
  score_.throw_if_stopped();
  score_.count();
  PlanCandidate candidate{job_, {}};
  if (migration_) candidate.migration = migration_->estimate(plan);
  const double weight = score_.total_weight(plan);
  const ChurnSlowdown churn = score_.churn_of(plan);
  const auto score_of = [&](const auto& estimate) {
    return score_.of(estimate.iteration_s, weight, estimate.egress_usd, candidate.migration, churn);
  };
  const cost::IterationEstimate* estimate =
      estimator_.estimate_or_prune(plan, [&](const cost::EstimateBounds& bounds) {
        return energy_of(score_of(bounds), bounds.deficit_bytes) > max_energy;
      });
  if (!estimate) return std::nullopt;
  candidate.iteration_s = estimate->iteration_s;
  candidate.deficit_bytes = estimate->deficit_bytes;
  candidate.egress_usd = estimate->egress_usd;
  candidate.score = score_of(*estimate);
  candidate.plan = std::move(plan);
  return candidate;
}

PlanCandidate PlanEvaluator::evaluate_with_flushes(Plan plan) {
  return *evaluate_with_flushes_up_to(infinity, std::move(plan));
}

std::optional<PlanCandidate> PlanEvaluator::evaluate_with_flushes_up_to(double max_energy, Plan plan) {
  return evaluate_up_to(max_energy, with_flushes(std::move(plan)));
}

Plan PlanEvaluator::with_flushes(Plan plan) {
  plan.execution.flush = job_->problem.job.execution.flush;
  const bool can_add_flushes = traits(job_->model.schedule).forwards_first && job_->model.flush == 0 &&
                               !job_->model.sharding.gradients && may_flush(job_->problem.job);
  if (can_add_flushes && deficit_bytes(plan) > 0)
    plan.execution.flush = std::max(1, fit_flush_interval(*job_, plan));
  return plan;
}

PlanCandidate evaluate_plan(const std::shared_ptr<const DecidedJob>& job, Plan plan, const PlanScore& score) {
  return PlanEvaluator(job, score).evaluate(std::move(plan));
}

namespace {

bool has_shortest_warm_ups(const Plan& plan) {
  return std::all_of(plan.pipelines.begin(), plan.pipelines.end(), [](const Pipeline& pipeline) {
    const std::vector<int> shortest = cost::shortest_warm_ups(static_cast<int>(pipeline.stages.size()));
    for (std::size_t stage = 0; stage < shortest.size(); ++stage)
      if (pipeline.stages[stage].warm_up.value_or(shortest[stage]) != shortest[stage]) return false;
    return true;
  });
}

template <class Change>
void for_each_stage(Plan& plan, const Change& change) {
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages) change(stage);
}

/// If no stage recomputes or offloads a layer, the plan becomes one of `none`; if all recompute everything or
/// equally many layers, of `full`; each where the job allows it.
void name_common_recomputation(const Job& undecided, Plan& plan) {
  const std::optional<int> count = plan.pipelines.front().stages.front().recompute_layers;
  bool same = true, all = true;
  for_each_stage(plan, [&](const Stage& it) {
    same = same && it.recompute_layers == count;
    all = all && it.recompute_layers == it.layers.second - it.layers.first;
  });
  if (!same && !all) return;
  if (traits(plan.execution.recomputation).offloads && count != 0) return;
  const Recomputation common = count == 0 ? Recomputation::none : Recomputation::full;
  if (!allows(undecided, Setting::recompute, name_of(common))) return;
  if (count != 0 && !all) {
    if (!allows(undecided, Setting::recompute_layers, *count)) return;
    plan.execution.recompute_layers = count;
  }
  for_each_stage(plan, [](Stage& it) { it.recompute_layers.reset(); });
  plan.execution.recomputation = common;
}

/// The same job with the schedule and the recomputation of the plan.
std::shared_ptr<const DecidedJob> with_settings_of(const Plan& plan, const DecidedJob& decided) {
  Job job = decided.problem.job;
  job.execution.schedule = plan.execution.schedule;
  job.execution.recomputation = plan.execution.recomputation;
  job.execution.recompute_layers = plan.execution.recompute_layers;
  auto result =
      std::make_shared<DecidedJob>(decided.problem, job, stage_sizes(plan), decided.model.shared_network);
  result->tensor_groups = decided.tensor_groups;
  result->max_degrees = decided.max_degrees;
  return result;
}

}  // namespace

PlanCandidate with_planned_orders(PlanCandidate candidate, const Job& undecided, const PlanScore& score) {
  Plan plan = cost::with_planned_orders(candidate.job->model, candidate.plan);
  if (plan == candidate.plan) return candidate;
  const ExecutionConfig planned = plan.execution;
  if (traits(planned.schedule).has_planned_warm_up && covers_one_f_one_b(undecided) &&
      has_shortest_warm_ups(plan)) {
    for_each_stage(plan, [](Stage& it) { it.warm_up.reset(); });
    plan.execution.schedule = Schedule::one_f_one_b;
  }
  if (traits(planned.recomputation).is_per_stage()) name_common_recomputation(undecided, plan);
  if (plan.execution == planned) return evaluate_plan(candidate.job, std::move(plan), score);
  const auto job = with_settings_of(plan, *candidate.job);
  return evaluate_plan(job, std::move(plan), score);
}

namespace {

/// balance_plan, or nothing if the energy exceeds the limit. The balanced plan, which is usually better,
/// comes first, so that the estimate of the other one ends early.
std::optional<PlanCandidate> balance_plan_up_to(double max_energy, PlanEvaluator& evaluator, Plan plan) {
  if (is_homogeneous(plan, *evaluator.job()))
    return evaluator.evaluate_with_flushes_up_to(max_energy, std::move(plan));
  plan = evaluator.with_flushes(std::move(plan));
  auto balanced = evaluator.evaluate_with_flushes_up_to(max_energy, balance_micro_batches(evaluator, plan));
  if (balanced) max_energy = std::min(max_energy, max_energy_of_better(*balanced));
  auto unbalanced = evaluator.evaluate_up_to(max_energy, std::move(plan));
  return !balanced || (unbalanced && !is_better(*balanced, *unbalanced)) ? unbalanced : balanced;
}

}  // namespace

std::optional<PlanCandidate> balance_plan_if_better(PlanEvaluator& evaluator, Plan plan,
                                                    const PlanCandidate& than) {
  return balance_plan_up_to(max_energy_of_better(than), evaluator, std::move(plan));
}

PlanCandidate balance_plan(PlanEvaluator& evaluator, Plan plan) {
  return *balance_plan_up_to(infinity, evaluator, std::move(plan));
}

PlanCandidate fit_plan(const std::shared_ptr<const DecidedJob>& job, Plan plan, const PlanScore& score) {
  PlanEvaluator evaluator(job, score);
  return fit_plan(evaluator, std::move(plan));
}

PlanCandidate fit_plan(PlanEvaluator& evaluator, Plan plan) {
  const DecidedJob& job = *evaluator.job();
  PlanCandidate best = balance_plan(evaluator, plan);
  const auto offer = [&](std::optional<PlanCandidate> candidate) {
    if (candidate && is_better(*candidate, best)) best = *std::move(candidate);
  };
  const auto offer_split = [&](const Plan& begin, bool in_common) {
    offer(balance_plan_if_better(evaluator, split_layers(job, begin, in_common), best));
  };
  const bool is_homogeneous_plan = is_homogeneous(plan, job);
  const double layers = job.model.stages.layers();
  const bool may_split =
      static_cast<double>(plan.pipelines.front().stages.size()) * layers * layers <= max_split_steps;
  // The best layer split depends on the micro-batches, and vice versa.
  std::vector<Plan> begins = {plan};
  if (!is_homogeneous_plan && best.plan.pipelines != plan.pipelines) begins.push_back(best.plan);
  for (const Plan& begin : begins) {
    if (may_split && are_equally_deep(plan)) offer_split(begin, true);
    const bool may_differ =
        plan.pipelines.size() <= max_heterogeneous_pipelines && !requires_uniform_pipelines(job);
    if (may_split && may_differ && !is_homogeneous_plan) offer_split(begin, false);
  }
  if (is_homogeneous_plan)
    offer(evaluator.evaluate_with_flushes_up_to(max_energy_of_better(best),
                                                balance_micro_batches(evaluator, best.plan)));
  return best;
}

namespace {

bool have_same_layers(const Plan& plan) {
  const auto& first = plan.pipelines.front().stages;
  return std::all_of(plan.pipelines.begin(), plan.pipelines.end(), [&](const Pipeline& pipeline) {
    return std::equal(pipeline.stages.begin(), pipeline.stages.end(), first.begin(), first.end(),
                      [](const Stage& a, const Stage& b) { return a.layers == b.layers; });
  });
}

/// Moves the end of stage `stage` to layer `end` in all pipelines.
void cut(Plan& plan, std::size_t stage, int end) {
  for (Pipeline& pipeline : plan.pipelines)
    pipeline.stages[stage].layers.second = pipeline.stages[stage + 1].layers.first = end;
}

}  // namespace

PlanCandidate refine_layer_cuts(PlanCandidate best, const PlanScore& score) {
  const bool may_have_more_flushes = best.plan.execution.flush && best.job->model.flush == 0;
  if ((!may_have_more_flushes && best.job->model.chunks == 1) || !have_same_layers(best.plan)) return best;
  if (best.job->model.stages.layers() > max_recut_layers) return best;
  PlanEvaluator evaluator(best.job, score);
  for (int pass = 0; pass < cut_refinement_passes; ++pass) {
    const double before = best.score;
    for (std::size_t stage = 0; stage + 1 < best.plan.pipelines.front().stages.size(); ++stage) {
      const std::vector<Stage> stages = best.plan.pipelines.front().stages;
      const int chunks = best.job->model.chunks, now = stages[stage].layers.second;
      for (int end = stages[stage].layers.first + chunks; end <= stages[stage + 1].layers.second - chunks;
           ++end) {
        if (end == now) continue;
        Plan other = best.plan;
        cut(other, stage, end);
        auto candidate = balance_plan_if_better(evaluator, std::move(other), best);
        if (candidate && is_better(*candidate, best)) best = *std::move(candidate);
      }
    }
    if (!(best.score < before)) break;
  }
  return best;
}

PlanCandidate improve_stage_order(PlanCandidate best, const PlanScore& score, double max_evaluations) {
  if (!are_equally_deep(best.plan)) return best;
  PlanEvaluator evaluator(best.job, score);
  const std::size_t stages = best.plan.pipelines.front().stages.size();
  double evaluations = 0;
  bool is_improved = true;
  try {
    while (std::exchange(is_improved, false))
      for (std::size_t a = 0; a < stages; ++a)
        for (std::size_t b = a + 1; b < stages; ++b) {
          if (++evaluations > max_evaluations) return best;
          Plan other = best.plan;
          for (Pipeline& it : other.pipelines) std::swap(it.stages[a].devices, it.stages[b].devices);
          auto candidate =
              evaluator.evaluate_with_flushes_up_to(max_energy_of_better(best), std::move(other));
          if (!candidate || !is_better(*candidate, best)) continue;
          best = *std::move(candidate);
          is_improved = true;
        }
  } catch (const WorkStopped&) {
  }
  return best;
}

long long max_fitting_evaluations(const DecidedJob& job) {
  constexpr long long balanced_plan = 2;  // before and after the micro-batches are balanced
  const long long layers = job.model.stages.layers();
  // Every layer is a possible cut for at most two of the boundaries between neighbouring stages.
  return 5 * balanced_plan +
         (layers > max_recut_layers ? 0 : cut_refinement_passes * 2 * layers * balanced_plan);
}

}  // namespace dtfm::search
