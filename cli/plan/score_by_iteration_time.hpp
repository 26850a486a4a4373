// dtfm-plan --score by iteration time: checks, estimates and simulates a plan made elsewhere.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/common/interrupt.hpp"
#include "cli/plan/plan_options.hpp"
#include "planner/core/problem.hpp"
#include "planner/core/target_settings.hpp"
#include "planner/io/importers/foreign_plan.hpp"
#include "planner/io/text/read_log.hpp"

namespace dtfm::cli {

/// Returns the exit code: 3 if the plan does not fit the memory of its devices. `spread`: uncertainty of the
/// constants of `problem`, if known. `target_changes`: what the target has replaced in the
/// plan. `read`: the input files so far.
int score_by_iteration_time(const PlanOptions& options, const Problem& problem,
                            const std::optional<CalibrationUncertainty>& spread,
                            const io::PlanAndNotes& plan_and_notes,
                            const std::vector<TargetChange>& target_changes, const io::ReadLog& read,
                            InterruptWatch& watch);

}  // namespace dtfm::cli
