// Reads what dtfm-plan is asked for.
#pragma once

#include <optional>
#include <vector>

#include "cli/plan/plan_options.hpp"
#include "planner/api/plan_request.hpp"

namespace dtfm::cli {

struct PlanInput {
  api::PlanRequest request;             // without what belongs to the process: interrupts and progress
  std::optional<api::GivenPlan> given;  // to score
  std::vector<TargetChange> target_changes = {};  // of the job or the given plan, by its target
};

/// Reads the input files. Throws Error for bad input, and for options that contradict it.
PlanInput read_plan_input(const PlanOptions& options);

}  // namespace dtfm::cli
