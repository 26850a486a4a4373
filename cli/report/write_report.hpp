// The report of a command, to its file; and what is written before and after it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/report/timeline_recorder.hpp"
#include "planner/core/problem.hpp"
#include "planner/io/writers/plan_json.hpp"
#include "simulator/io/report_json.hpp"

namespace dtfm::cli {

/// Of dtfm-plan: the plan as its file says it, and one iteration of it simulated, in which nothing happens. What
/// cannot be simulated, or is not because `stop` says so, the page says, and shows the rest.
void write_plan_report(const std::string& file, const Problem& problem, const Plan& plan,
                     const io::PlanRecord& record, const std::function<bool()>& stop);

/// Of dtfm-sim: the result as its file says it, who computes what, and the timeline of one iteration if there
/// is one.
void write_sim_report(const std::string& file, const Problem& problem, const Plan& plan,
                    const sim::SimReport& report, const io::SimRecord& record, std::optional<Timeline> timeline);

/// Of dtfm-compare: the comparison as its file says it (schema dtfm-compare/1).
void write_comparison_report(const std::string& file, const Problem& problem,
                           nlohmann::ordered_json comparison);

}  // namespace dtfm::cli
