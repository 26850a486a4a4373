// Plans that go on from one that runs already, on machines that may have changed since.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "planner/cost/iteration_time/migration_cost.hpp"
#include "planner/search/iteration_time/initial_plans.hpp"
#include "planner/search/iteration_time/plan_candidate.hpp"
#include "planner/search/iteration_time/plan_score.hpp"

namespace dtfm::search {

/// What runs, and how long what comes after it is to be used.
struct WarmStart {
  Plan plan;  // on devices of the topology, or `no_device` where one is gone
  Job job;    // decided: under which the plan runs; of the same model as the problem's
  double horizon_s = 0;
};

/// The plan as it is, on the network as it is, drained every `flush` micro-batches (0: as the job says);
/// nothing where a device is gone or cannot be used, or the limits or the job's micro-batches do not allow
/// it. Its pipelines need not be of equal depth.
std::optional<PlanCandidate> unchanged_plan(const Plan& plan, int flush,
                                            const std::shared_ptr<const DecidedJob>& job,
                                            const ShapeLimits& limits, const PlanScore& score);

/// What `plan` becomes where units are gone or there are new ones: seats of units that are gone are taken by
/// unused units, each the one with which the plan is best. Where there are not enough, the pipelines that
/// lack most are dropped, their units are used in others, and their micro-batches dealt out. The same
/// without the pipelines on a site, where that is better, and with more pipelines, on the units that are
/// left; all of them fitted, the best first. Where degrees are unlike, what is left of a stage's devices is a
/// unit or several. None where the plan's pipelines are not equally deep, or not one of its stages can stay.
/// `stop` is asked before every price; after it, seats have the units that lack least there, and the first
/// plan is offered all the same.
std::vector<PlanCandidate> repaired_plans(const Plan& plan, const std::shared_ptr<const DecidedJob>& job,
                                          const ShapeLimits& limits, const PlanScore& score,
                                          const std::function<bool()>& stop = {});

/// The plan with as many units as possible where they lack nothing, as long as that makes its score no worse:
/// of many equally good plans, annealing finds any, and their slowest transfer says little of all others. The
/// score must know what moves. `stop` is asked before every price.
PlanCandidate minimize_migration(const PlanCandidate& candidate, const PlanScore& score,
                                 const std::function<bool()>& stop = {});

/// Can the search change the plan: are its pipelines equally deep, and do its stages stand on units, device
/// by device?
bool uses_tensor_groups(const Plan& plan, const DecidedJob& job);

}  // namespace dtfm::search
