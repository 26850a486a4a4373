// A plan by iteration time in words.
#pragma once

#include <string>

#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"
#include "planner/io/plan_json.hpp"

namespace dtfm {

struct IterationSummary {
  const Problem& problem;  // with the job of the plan
  const Plan& plan;
  const PlanRecord& record;
};

std::string summary_text(const IterationSummary& summary);

}  // namespace dtfm
