// dtfm-plan --score by iteration time: checks, estimates and simulates a plan made elsewhere.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/common/interrupt.hpp"
#include "cli/plan/plan_options.hpp"
#include "core/plan/problem.hpp"
#include "core/plan/target_settings.hpp"
#include "core/io/importers/foreign_plan.hpp"
#include "core/io/text/read_log.hpp"

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
