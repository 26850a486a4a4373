// dtfm-plan --score by iteration time: checks, estimates and simulates a plan made elsewhere.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/common/interrupt.hpp"
#include "cli/plan/plan_options.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"
#include "planner/io/text/read_log.hpp"

namespace dtfm::cli {

/// Returns the exit code: 3 if the plan does not fit the memory of its devices. `spread`: uncertainty of the
/// constants of `problem`, if known. `notes`: warnings from reading the plan. `read`: the input files so far.
int score_by_iteration_time(const PlanOptions& options, const Problem& problem,
                            const std::optional<CalibrationUncertainty>& spread, const Plan& plan,
                            const std::vector<std::string>& notes, const io::ReadLog& read,
                            InterruptWatch& watch);

}  // namespace dtfm::cli
