// Plans small problems by enumerating all plans, so that the plan with the least simulated time is proven
// optimal.
#pragma once

#include "planner/api/find_plans.hpp"

namespace dtfm::api {

/// Whether there may be few enough plans to enumerate all of them: not for an objective other than iteration
/// time, a scenario other than the nominal one, a running plan, a Pareto front, or a limit on evaluations.
bool can_enumerate(const PlanRequest& request);

/// Like search_and_simulate, but enumerates all plans if they are few enough. The plan is then the best of
/// all, and `found.stopped` is `optimal`. With `prove`, the limits are five times as high. Plans that a lower
/// bound rules out are not simulated. Expects can_enumerate(request), and no ranks: the problem is so small
/// that every process plans alone.
FoundPlans search_and_enumerate(const PlanRequest& request);

}  // namespace dtfm::api
