// The report of a command, to its file.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/report/timeline_recorder.hpp"
#include "planner/core/problem.hpp"
#include "planner/io/plan_json.hpp"
#include "simulator/io/report_json.hpp"

namespace dtfm {

/// Of dtfm-plan: the plan as its file says it, and one iteration of it simulated, in which nothing happens.
/// What cannot be simulated, or is not because `stop` says so, the page says, and shows the rest.
void put_plan_report(const std::string& file, const Problem& problem, const Plan& plan,
                     const PlanRecord& record, const std::function<bool()>& stop);

/// Of dtfm-sim: the result as its file says it, who computes what, and the timeline of one iteration if there
/// is one.
void put_sim_report(const std::string& file, const Problem& problem, const Plan& plan,
                    const SimReport& report, const SimRecord& record, std::optional<Timeline> timeline);

}  // namespace dtfm
