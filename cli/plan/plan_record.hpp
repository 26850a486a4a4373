// What a plan file says of a plan by iteration time.
#pragma once

#include <string>
#include <vector>

#include "cli/plan/plan_options.hpp"
#include "planner/api/plan_request.hpp"
#include "planner/io/writers/plan_json.hpp"

namespace dtfm::cli {

/// Of `candidate` by itself; and of it as one that is simulated.
io::PlanRecord make_plan_record(const PlanOptions& options, const search::PlanCandidate& candidate);
io::PlanRecord::Finalist make_finalist(const search::PlanCandidate& candidate);
std::vector<io::PlanRecord::Finalist> make_finalists(const api::PlanResult& search);
std::vector<io::PlanRecord::Finalist::Simulated> make_simulated(
    const std::vector<api::SimulatedTimes>& times);

void add_notes(const std::vector<std::string>& notes, io::PlanRecord& record);
/// Scenarios under which a plan that was simulated does nothing.
std::vector<std::string> no_progress_notes(const io::PlanRecord::Finalist& finalist);
/// "tokyo-3 needs 21.4 GB and has 16 GB": the device with the largest memory deficit.
std::string format_memory_deficit(const search::PlanCandidate& candidate);

/// Of an iteration on the nominal network; the estimate where it was not simulated.
double nominal_seconds(const io::PlanRecord& record);

/// For all plans with the decisions of `best`, within the limits; the gap is that of its simulated iteration,
/// where there is one. `has_undecided`: the job leaves decisions open.
void add_bound(const search::PlanCandidate& best, const search::IterationSearchOptions& search,
               bool has_undecided, io::PlanRecord& record);

}  // namespace dtfm::cli
