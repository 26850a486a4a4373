// Formats the summary of a plan made by iteration time.
#pragma once

#include <string>

#include "planner/api/plan_answer.hpp"

namespace dtfm::cli {

std::string format_iteration_summary(const api::PlanAnswer& answer);

/// "stopped by --time-limit after 1,234 evaluations". The answer must have a search.
std::string format_search_end(const api::PlanAnswer& answer);

}  // namespace dtfm::cli
