// Formats the summary of a plan made by comm-cost.
#pragma once

#include <string>

#include "planner/api/plan_answer.hpp"

namespace dtfm::cli {

/// Returns about 40 to 60 lines for any number of devices.
std::string format_comm_cost_summary(const api::PlanAnswer& answer);

}  // namespace dtfm::cli
