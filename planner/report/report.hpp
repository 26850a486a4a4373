// The report page of a result, as one HTML document. `program` is what made the result, with its version:
// "dtfm-plan 0.1.0".
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "core/base/stop.hpp"
#include "core/plan/problem.hpp"
#include "planner/api/plan_answer.hpp"
#include "planner/api/simulate.hpp"

namespace dtfm::report {

/// The plan as in its file, and one simulated iteration without a scenario. If the plan cannot be simulated
/// or `stop` returns true, the page gives the reason and shows the rest.
std::string plan_report(const std::string& program, const api::PlanAnswer& answer, const StopFunction& stop);

/// The result as in its file (`document`), the plan, and the timelines of a simulated and of a measured
/// iteration if there are any.
std::string simulation_report(const std::string& program, const api::SimulateRequest& request,
                              const api::SimulateResult& result, nlohmann::ordered_json document);

/// The comparison as in its file (schema dtfm-compare/1).
std::string comparison_report(const std::string& program, const Problem& problem,
                              nlohmann::ordered_json comparison);

}  // namespace dtfm::report
