// Formats the summary of a plan made by iteration time.
#pragma once

#include <string>

#include "core/base/stop.hpp"
#include "cli/plan/plan_options.hpp"
#include "planner/io/plan_document.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"

namespace dtfm::cli {

struct IterationSummary {
  const Problem& problem;  // with the job of the plan
  const Plan& plan;
  const io::PlanRecord& record;
};

std::string format_summary(const IterationSummary& summary);

/// Writes and prints the plan by `write_plan_output`. `front` is the summary of a Pareto front, or empty.
void write_iteration_plan(const PlanOptions& options, const IterationSummary& summary,
                          const StopFunction& stop, const std::string& front = "");

}  // namespace dtfm::cli
