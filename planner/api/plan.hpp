// Plans a job on a topology, and scores a given plan: what dtfm-plan does, without text.
#pragma once

#include "planner/api/plan_answer.hpp"
#include "planner/api/plan_request.hpp"

namespace dtfm::api {

/// Searches for the best plan by the objective of the request, and says what is known about it. By
/// communication cost, it is found by `plan_by_comm_cost`, and nothing is simulated; by the other objectives,
/// by `find_plans`. Of several ranks, only the root gets more than the plans and their simulation. If the
/// work is stopped or its time limit has passed, the answer has the best plan so far, without the parts that
/// were not finished. Throws what those two throw.
PlanAnswer plan(const PlanRequest& request);

/// Estimates and simulates a plan as it is, with its own settings, and says what is known about it. The
/// limits of the request apply only to the plan that it advises, if asked to. By communication cost, nothing
/// is simulated, explained or advised. Throws Error if the plan contradicts the job (plan_conflicts), and if
/// the times of a device are not known; for advice, what `plan` throws.
PlanAnswer score(const PlanRequest& request, const GivenPlan& given);

}  // namespace dtfm::api
