// Plans small problems by enumerating all plans, so that the plan with the least simulated time is proven
// optimal.
#pragma once

#include "planner/api/plan_request.hpp"

namespace dtfm::api {

/// Whether search_and_enumerate tries to enumerate all plans. The problem is then so small that every rank
/// plans alone, and ranks may have different results.
bool can_enumerate(const PlanRequest& request);

/// Like search_and_simulate, but if there are few enough plans, enumerates all of them. The plan is then the
/// best of all, and `found.stopped` is `optimal`. With `prove`, the limits are five times as high. Plans that
/// a lower bound rules out are not simulated. Does not enumerate for an objective other than iteration time,
/// a scenario other than the nominal one, a running plan, a Pareto front, or a limit on evaluations.
PlanResult search_and_enumerate(const PlanRequest& request);

}  // namespace dtfm::api
