// Builds the record from which the plan file and the summary are written, for plans by iteration time.
#pragma once

#include <string>
#include <vector>

#include "cli/plan/plan_options.hpp"
#include "planner/io/plan_document.hpp"
#include "planner/api/plan_request.hpp"
#include "core/base/work.hpp"

namespace dtfm::cli {

/// The record of the plan alone, with its estimate and notes, but without search, finalists and bound.
io::PlanRecord make_plan_record(const PlanOptions& options, const search::PlanCandidate& candidate);
/// Explains the plan if `options` say so, with a warning if the work was stopped.
void add_explanation(const PlanOptions& options, const search::PlanCandidate& candidate, const Work& work,
                     io::PlanRecord& record);

/// Adds what trainers make of the plan, unless it is made for one or `simulated` is empty. `problem` has the
/// job of the plan. If the work was stopped, adds a warning.
void add_target_times(const Problem& problem, const Plan& plan,
                      const std::vector<api::SimulatedTimes>& simulated, const Work& work,
                      io::PlanRecord& record);

void add_notes(const std::vector<std::string>& notes, io::PlanRecord& record);
/// Returns a note for each scenario under which the plan completes no iteration or deadlocks.
std::vector<std::string> no_progress_notes(const std::vector<api::SimulatedTimes>& simulated);
/// "tokyo-3 needs 21.4 GB and has 16 GB": the device with the largest memory deficit.
std::string format_memory_deficit(const search::PlanCandidate& candidate);

/// Adds the lower bound of the objective, and a warning if it is above the cost of the best plan.
void add_bound(const api::PlanRequest& request, const api::PlanResult& result, io::PlanRecord& record);

}  // namespace dtfm::cli
