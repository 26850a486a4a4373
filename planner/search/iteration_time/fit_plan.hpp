// What a plan is worth, and what becomes of it when layers and micro-batches are fitted to its devices.
#pragma once

#include <memory>

#include "planner/cost/iteration_time/migration_cost.hpp"
#include "planner/search/iteration_time/plan_candidate.hpp"
#include "planner/search/iteration_time/plan_score.hpp"

namespace dtfm::search {

/// As rare drains as memory allows (IterationTimer::max_fitting_flush): after so many micro-batches. Where
/// pipelines must be alike, a number that divides those of a pipeline, for some trainers accumulate gradients
/// over equal rounds, if there is one that is not below half of it.
int fit_flush_interval(const DecidedJob& job, cost::IterationTimer& timer);

/// `plan` under `job`: with as many layers a stage and micro-batches a pipeline as make it fastest, and,
/// where memory asks for it and the job does not say how often the pipelines drain, with drains in between.
PlanCandidate fit_plan(const std::shared_ptr<const DecidedJob>& job, Plan plan, const PlanScore& score);

/// What the timer's plan is worth, all but the plan itself. `moving`: where the score knows what moves.
PlanCandidate evaluate_timer(const std::shared_ptr<const DecidedJob>& job, cost::IterationTimer& timer,
                             cost::MigrationTimer* migration, const PlanScore& score);

/// `plan` as it is.
PlanCandidate evaluate_plan(const std::shared_ptr<const DecidedJob>& job, Plan plan, int flush,
                            const PlanScore& score);

/// `plan` with drains where memory asks for them and the job does not say how often; among unlike devices
/// also with micro-batches dealt so that the slowest pipeline ends earliest, if that is better.
PlanCandidate balance_plan(const std::shared_ptr<const DecidedJob>& job, Plan plan, const PlanScore& score);

/// Where a plan has to be drained, with every boundary of its stages, in common to all pipelines, at the
/// layer that is best: a cut that leaves the smallest memories fewer layers drains less often, and lies
/// beyond cuts that are worse than either. Else the plan itself.
PlanCandidate refine_layer_cuts(PlanCandidate candidate, const PlanScore& score);

/// What fit_plan and refine_layer_cuts price together at most.
long long max_fitting_evaluations(const DecidedJob& job);

}  // namespace dtfm::search
