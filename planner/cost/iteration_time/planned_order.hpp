// What plans say about a stage if settings leave it to them: the order of its passes, and which layers it
// recomputes.
#pragma once

#include "core/plan/plan.hpp"
#include "planner/cost/iteration_time/iteration_model.hpp"

namespace dtfm::cost {

/// The plan with warm-ups or passes, if its schedule leaves them to plans: the warm-ups that its estimate
/// assumes, and passes that are as fast or faster; and with the recomputed layers that its estimate assumes.
/// Pipelines that have them keep them. If the job requires
/// uniform pipelines, a stage has the same in all of them: most recomputed layers; the longest warm-up,
/// as far as memory allows everywhere; passes for the slowest times of any pipeline.
Plan with_planned_orders(const IterationModel& model, Plan plan);
/// The same with the settings of the plan.
Plan with_planned_orders(Problem problem, Plan plan);

}  // namespace dtfm::cost
