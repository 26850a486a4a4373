// dtfm-plan by iteration time, and what follows from it: search, judge, result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/interrupt.hpp"
#include "cli/plan_options.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"
#include "planner/io/plan_json.hpp"
#include "planner/search/plan_candidate.hpp"

namespace dtfm {

/// What a plan file says of `candidate` by itself; and of it as one that is simulated.
PlanRecord record_of(const PlanOptions& options, const PlanCandidate& candidate);
PlanRecord::Finalist finalist_of(const PlanCandidate& candidate);

/// The exit code: 3 where no plan fits the memory of its devices.
/// `spread`: how well the constants of `problem` are known, if that is known.
int plan_by_iteration_time(const PlanOptions& options, const Problem& problem,
                           const std::optional<CalibrationSpread>& spread, InterruptWatch& watch);

/// Of a plan made elsewhere; `notes`: what is to be known of it.
int score_by_iteration_time(const PlanOptions& options, const Problem& problem,
                            const std::optional<CalibrationSpread>& spread, const Plan& plan,
                            const std::vector<std::string>& notes, InterruptWatch& watch);

}  // namespace dtfm
