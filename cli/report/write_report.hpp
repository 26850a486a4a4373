// Writes the report page of a command.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "core/base/stop.hpp"
#include "core/plan/problem.hpp"
#include "planner/api/plan_answer.hpp"
#include "planner/api/simulate.hpp"

namespace dtfm::cli {

/// The report of dtfm-plan: the plan as in its file, and one simulated iteration without a scenario. If the
/// plan cannot be simulated or `stop` returns true, the page gives the reason and shows the rest.
void write_plan_report(const std::string& file, const api::PlanAnswer& answer, const StopFunction& stop);

/// The report of dtfm-sim: the result as in its file (`document`), the plan, and the timelines of a simulated
/// and of a measured iteration if there are any.
void write_sim_report(const std::string& file, const api::SimulateRequest& request,
                      const api::SimulateResult& result, nlohmann::ordered_json document);

/// The report of dtfm-compare: the comparison as in its file (schema dtfm-compare/1).
void write_comparison_report(const std::string& file, const Problem& problem,
                             nlohmann::ordered_json comparison);

}  // namespace dtfm::cli
