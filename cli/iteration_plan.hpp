// dtfm-plan by iteration time: search, judge, result.
#pragma once

#include <optional>

#include "cli/interrupt.hpp"
#include "cli/plan_options.hpp"
#include "planner/core/problem.hpp"

namespace dtfm {

/// The exit code: 3 where no plan fits the memory of its devices, or none completes an iteration.
/// `spread`: how well the constants of `problem` are known, if that is known.
int plan_by_iteration_time(const PlanOptions& options, const Problem& problem,
                           const std::optional<CalibrationSpread>& spread, InterruptWatch& watch);

}  // namespace dtfm
