// Builds the record from which the plan file and the summary are written, for plans by iteration time.
#pragma once

#include <string>
#include <vector>

#include "cli/plan/plan_options.hpp"
#include "planner/api/io/plan_document.hpp"
#include "planner/api/plan_request.hpp"

namespace dtfm::cli {

/// The record of the plan alone, with its estimate and notes, but without search, finalists and bound.
io::PlanRecord make_plan_record(const PlanOptions& options, const search::PlanCandidate& candidate);
/// The plan as a finalist, without simulated times.
io::PlanRecord::Finalist make_finalist(const search::PlanCandidate& candidate);
std::vector<io::PlanRecord::Finalist> make_finalists(const api::PlanResult& search);
std::vector<io::PlanRecord::Finalist::Simulated> make_simulated(
    const std::vector<api::SimulatedTimes>& times);

void add_notes(const std::vector<std::string>& notes, io::PlanRecord& record);
/// Returns a note for each scenario under which the finalist completes no iteration or deadlocks.
std::vector<std::string> no_progress_notes(const io::PlanRecord::Finalist& finalist);
/// "tokyo-3 needs 21.4 GB and has 16 GB": the device with the largest memory deficit.
std::string format_memory_deficit(const search::PlanCandidate& candidate);

/// Adds the lower bound of the objective, and a warning if it is above the cost of the best plan.
void add_bound(const api::PlanRequest& request, const api::PlanResult& result, io::PlanRecord& record);

}  // namespace dtfm::cli
