// dtfm-plan --score by iteration time: what is wrong with a plan made elsewhere, and what it takes.
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

/// The exit code: 3 where the plan does not fit the memory of its devices. `spread`: how well the constants
/// of `problem` are known, if that is known; `notes`: what is to be known of the plan; `read`:
/// what was read by then.
int score_by_iteration_time(const PlanOptions& options, const Problem& problem,
                            const std::optional<CalibrationUncertainty>& spread, const Plan& plan,
                            const std::vector<std::string>& notes, const io::ReadLog& read,
                            InterruptWatch& watch);

}  // namespace dtfm::cli
