// dtfm-plan by iteration time: requests the plan and writes it.
#pragma once

#include <optional>
#include <vector>

#include "cli/common/interrupt.hpp"
#include "cli/plan/plan_options.hpp"
#include "core/plan/problem.hpp"
#include "core/plan/target_settings.hpp"
#include "core/io/text/read_log.hpp"

namespace dtfm::cli {

/// Returns the exit code: 3 if no plan fits the memory of its devices, or none completes an iteration.
/// `spread`: uncertainty of the constants of `problem`, if known. `target_changes`: what
/// the target has replaced in the job. `read`: the input files so far.
int plan_by_iteration_time(const PlanOptions& options, const Problem& problem,
                           const std::optional<CalibrationUncertainty>& spread,
                           const std::vector<TargetChange>& target_changes, const io::ReadLog& read,
                           InterruptWatch& watch);

}  // namespace dtfm::cli
