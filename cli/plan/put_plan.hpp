// Writes the results of dtfm-plan.
#pragma once

#include <string>

#include "core/base/stop.hpp"
#include "cli/plan/plan_options.hpp"
#include "planner/io/plan_document.hpp"
#include "core/plan/problem.hpp"

namespace dtfm::cli {

/// Writes the plan file first, because a search may have been long and the report may fail or be killed; then
/// the report; then `text`, or the plan, to stdout.
void write_plan_output(const PlanOptions& options, const Problem& problem, const Plan& plan,
                       const io::PlanRecord& record, const std::string& text, const StopFunction& stop);

}  // namespace dtfm::cli
