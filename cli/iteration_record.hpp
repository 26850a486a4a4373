// What a plan file says of a plan by iteration time.
#pragma once

#include <string>
#include <vector>

#include "cli/judged_search.hpp"
#include "cli/plan_options.hpp"
#include "planner/io/plan_json.hpp"

namespace dtfm {

/// Of `candidate` by itself; and of it as one that is simulated.
PlanRecord record_of(const PlanOptions& options, const PlanCandidate& candidate);
PlanRecord::Finalist finalist_of(const PlanCandidate& candidate);
std::vector<PlanRecord::Finalist> finalists_of(const JudgedSearch& search);

void add_notes(const std::vector<std::string>& notes, PlanRecord& record);
/// Scenarios under which a plan that was simulated does nothing.
std::vector<std::string> idle_notes(const PlanRecord::Finalist& finalist);
/// "tokyo-3 needs 21.4 GB and has 16 GB": the device that lacks most memory.
std::string lacking_device(const PlanCandidate& candidate);

/// Of an iteration on the nominal network; the estimate where it was not simulated.
double nominal_seconds(const PlanRecord& record);

/// For all plans with the decisions of `best`, within the limits; the gap is that of its simulated iteration,
/// where there is one. `is_open`: the job leaves decisions open.
void add_bound(const PlanCandidate& best, const IterationSearchOptions& search, bool is_open,
               PlanRecord& record);

}  // namespace dtfm
