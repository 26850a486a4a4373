// Explains which resources determine the iteration time of a plan.
#pragma once

#include <string>

#include "planner/api/plan_answer.hpp"

namespace dtfm::cli {

/// The blocks "Bottleneck", "What if" and "When compute is the bottleneck". The answer must have an
/// explanation.
std::string format_explanation(const api::PlanAnswer& answer);

}  // namespace dtfm::cli
