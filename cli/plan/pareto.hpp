// Formats the Pareto front by time, price and number of devices.
#pragma once

#include <string>

#include "planner/api/plan_answer.hpp"

namespace dtfm::cli {

/// A table of a few evenly spaced points, including the first and the last, and which point the plan
/// `summarized` is, whose summary precedes it; empty if there are none.
std::string format_pareto_front(const api::ParetoFront& front, const Plan& summarized,
                                const std::string& file);

}  // namespace dtfm::cli
