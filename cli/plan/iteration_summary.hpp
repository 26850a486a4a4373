// Formats the summary of a plan made by iteration time.
#pragma once

#include <string>

#include "planner/api/plan_answer.hpp"

namespace dtfm::cli {

std::string format_iteration_summary(const api::PlanAnswer& answer);

}  // namespace dtfm::cli
