// How a search ended: for the plan file, for the summary, and what its reader should know of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/plan_options.hpp"
#include "planner/io/plan_json.hpp"
#include "planner/search/strategy.hpp"

namespace dtfm {

PlanRecord::Search search_record(const PlanOptions& options, long long evaluations, Stopped stopped,
                                 const std::vector<ConvergencePoint>& convergence);

/// Where the user ended it. `noun`: what it was for, "plan".
std::vector<std::string> stop_notes(Stopped stopped, std::string_view noun);

/// "stopped by --time-limit after 1,234 evaluations"
std::string end_in_words(const PlanRecord::Search& search);

}  // namespace dtfm
