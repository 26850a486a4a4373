// dtfm-plan by iteration time: search, judge, result.
#pragma once

#include <optional>

#include "cli/common/interrupt.hpp"
#include "cli/plan/plan_options.hpp"
#include "planner/core/problem.hpp"
#include "planner/io/text/read_log.hpp"

namespace dtfm::cli {

/// The exit code: 3 where no plan fits the memory of its devices, or none completes an iteration.
/// `spread`: how well the constants of `problem` are known, if that is known; `read`: what was read by then.
int plan_by_iteration_time(const PlanOptions& options, const Problem& problem,
                           const std::optional<CalibrationUncertainty>& spread, const io::ReadLog& read,
                           InterruptWatch& watch);

}  // namespace dtfm::cli
