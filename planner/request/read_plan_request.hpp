// Reads what dtfm-plan is asked for.
#pragma once

#include <optional>
#include <vector>

#include "planner/request/plan_options.hpp"
#include "planner/api/plan_answer.hpp"
#include "planner/api/plan_request.hpp"

namespace dtfm::request {

struct PlanTask {
  api::PlanRequest request;
  std::optional<api::GivenPlan> given;            // to score
  std::string topology_text = {};                 // of --gpus
  std::vector<TargetChange> target_changes = {};  // of the job or the given plan, by its target
};

/// Reads the inputs. Throws Error for bad input, and for options that contradict it.
PlanTask read_plan_task(const PlanOptions& options);

/// Searches for the plan, or scores the given one. Throws Error if no plan has the requested numbers of
/// stages and replicas.
api::PlanAnswer run(const PlanTask& task, const PlanOptions& options);

}  // namespace dtfm::request
