// Evaluates plans, and fits their layers and micro-batches to the devices.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "planner/cost/iteration_time/iteration_time.hpp"
#include "planner/cost/iteration_time/micro_batch_split.hpp"
#include "planner/cost/iteration_time/migration_cost.hpp"
#include "planner/search/iteration_time/plan_candidate.hpp"
#include "planner/search/iteration_time/plan_score.hpp"

namespace dtfm::search {

/// The longest interval between flushes, in micro-batches, that memory allows
/// (cost::max_fitting_flush). If pipelines must be uniform, the longest one that divides the
/// micro-batches of a pipeline, because some trainers accumulate gradients over equal rounds, unless that is
/// less than half as long.
int fit_flush_interval(const DecidedJob& job, const Plan& plan);

/// Evaluates plans of one job that differ little from each other.
class PlanEvaluator {
 public:
  /// `score` must outlive this.
  PlanEvaluator(std::shared_ptr<const DecidedJob> job, const PlanScore& score);
  PlanEvaluator(std::shared_ptr<const DecidedJob> job, PlanScore&& score) = delete;

  const std::shared_ptr<const DecidedJob>& job() const { return job_; }
  /// IterationEstimator::estimate_pipelines. Valid until the next call; does not count as an evaluation.
  const cost::IterationEstimate& estimate_pipelines(const Plan& plan) {
    return estimator_.estimate_pipelines(plan);
  }
  /// Bytes by which the plan exceeds memory.
  double deficit_bytes(const Plan& plan) { return estimator_.deficit_bytes(plan); }
  /// Evaluates `plan` without changes. Its execution must be that of the job, except for its flushes.
  PlanCandidate evaluate(Plan plan);
  /// The same, or nothing if the energy (energy_of) exceeds the limit; then the estimate is usually pruned.
  std::optional<PlanCandidate> evaluate_up_to(double max_energy, Plan plan);
  /// Evaluates `plan` with flushes that are as rare as memory allows, unless it needs none or the job fixes
  /// their interval. If no interval fits, flushes after every micro-batch, which exceeds memory least.
  PlanCandidate evaluate_with_flushes(Plan plan);
  std::optional<PlanCandidate> evaluate_with_flushes_up_to(double max_energy, Plan plan);
  /// The plan as evaluate_with_flushes evaluates it.
  Plan with_flushes(Plan plan);

 private:
  std::shared_ptr<const DecidedJob> job_;
  const PlanScore& score_;
  cost::IterationEstimator estimator_;
  std::optional<cost::MigrationTimer> migration_;
};

/// Fits `plan` to the job: chooses layers per stage and micro-batches per pipeline to make it fastest, and
/// adds flushes if memory requires them and the job does not fix their interval.
PlanCandidate fit_plan(PlanEvaluator& evaluator, Plan plan);
PlanCandidate fit_plan(const std::shared_ptr<const DecidedJob>& job, Plan plan, const PlanScore& score);

/// PlanEvaluator::evaluate for a single plan.
PlanCandidate evaluate_plan(const std::shared_ptr<const DecidedJob>& job, Plan plan, const PlanScore& score);

/// The candidate with what its schedule leaves to plans (cost::with_planned_orders). Searches leave it open.
/// If warm-ups are those of 1F1B, which `undecided` leaves open too, that is its schedule.
PlanCandidate with_planned_orders(PlanCandidate candidate, const Job& undecided, const PlanScore& score);

/// Time of each pipeline of the plan as a function of its micro-batches, near their present number.
std::vector<cost::PipelinePace> pipeline_paces(const Plan& plan, const cost::IterationEstimate& estimate);

/// Evaluates `plan`, with flushes if memory requires them and the job does not fix their interval. With
/// heterogeneous devices, micro-batches are redistributed so that the slowest pipeline ends earliest, if that
/// is better.
PlanCandidate balance_plan(PlanEvaluator& evaluator, Plan plan);

/// The same, but may return nothing if the result is not better than `than`.
std::optional<PlanCandidate> balance_plan_if_better(PlanEvaluator& evaluator, Plan plan,
                                                    const PlanCandidate& than);

/// If a plan needs flushes or its stages have several chunks, tries every layer for each stage boundary,
/// common to all pipelines. A cut that gives fewer layers to the smallest memory allows rarer flushes, but
/// cuts in between may be worse than both; the split of layers in fit_plan does not know chunks. Other plans
/// are returned unchanged.
PlanCandidate refine_layer_cuts(PlanCandidate candidate, const PlanScore& score);

/// Exchanges the devices of two stages in all pipelines, as long as that is better. Plans whose pipelines
/// differ in depth are returned unchanged. Ends after `max_evaluations`, or if the score is stopped.
PlanCandidate improve_stage_order(PlanCandidate candidate, const PlanScore& score, double max_evaluations);

/// Upper bound on the evaluations of fit_plan and refine_layer_cuts together.
long long max_fitting_evaluations(const DecidedJob& job);

}  // namespace dtfm::search
