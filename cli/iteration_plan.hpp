// dtfm-plan by iteration time, and what follows from it: search, judge, result.
#pragma once

#include "cli/interrupt.hpp"
#include "cli/plan_options.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"

namespace dtfm {

/// The exit code: 3 where no plan fits the memory of its devices.
int plan_by_iteration_time(const PlanOptions& options, Problem problem, InterruptWatch& watch);

/// Of a plan made elsewhere.
int score_by_iteration_time(const PlanOptions& options, Problem problem, const Plan& plan,
                            InterruptWatch& watch);

}  // namespace dtfm
