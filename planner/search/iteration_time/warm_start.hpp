// Plans that resume from a running one, on devices that may have changed since.
#pragma once

#include <optional>
#include <vector>

#include "core/base/stop.hpp"
#include "planner/cost/iteration_time/migration_cost.hpp"
#include "planner/search/iteration_time/initial_plans.hpp"
#include "planner/search/iteration_time/plan_candidate.hpp"
#include "planner/search/iteration_time/plan_score.hpp"

namespace dtfm::search {

/// The running plan, and how long its successor will be used.
struct WarmStart {
  Plan plan;  // on devices of the topology, or `no_device` for those that are gone
  Job job;    // the decided job of the running plan, with the same model as the problem's
  double horizon_s = 0;
};

/// Evaluates the running plan on the current network, with the execution of the job, and with its own flushes
/// if the job does not fix them. Nothing if a device is gone or cannot be used, or if the limits or the job's
/// micro-batches do not allow it. Its pipelines may have different numbers of stages, and its stages
/// virtual_layers for the chunks of the job.
std::optional<PlanCandidate> unchanged_plan(const Plan& plan, const std::shared_ptr<const DecidedJob>& job,
                                            const ShapeLimits& limits, const PlanScore& score);

/// Repairs `plan` after devices have left or joined. Slots whose group is gone get unused groups, each the
/// one with which the plan is best. If there are too few, the pipelines with most empty slots are dropped,
/// their groups are reused, and their micro-batches are redistributed. Also returns variants without the
/// pipelines on a site, if that is better, and with more pipelines on the remaining groups. All are fitted;
/// the best comes first. `plan` has no virtual_layers. With mixed degrees, the remaining devices of a stage
/// form one or more groups. Empty if the plan's pipelines have different numbers of stages, or if none of its
/// stages can stay. `stop` is called before every evaluation; once it returns true, slots get the groups that
/// must fetch least, and only the first plan is certain to be returned.
std::vector<PlanCandidate> repaired_plans(const Plan& plan, const std::shared_ptr<const DecidedJob>& job,
                                          const ShapeLimits& limits, const PlanScore& score,
                                          const StopFunction& stop = {});

/// Assigns as many groups as possible to slots whose state they already hold, as long as the score gets no
/// worse. Annealing returns any of many equally good plans, and the migration time only reflects the slowest
/// transfer. The score must include migration. `stop` is called before every evaluation.
PlanCandidate minimize_migration(const PlanCandidate& candidate, const PlanScore& score,
                                 const StopFunction& stop = {});

/// Whether the search can change the plan: all pipelines have the same number of stages, and each stage is a
/// tensor-parallel group with its devices in order.
bool uses_tensor_groups(const Plan& plan, const DecidedJob& job);

}  // namespace dtfm::search
