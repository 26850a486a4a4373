// Plans small problems: all plans are enumerated, so that the best one, as simulated, is proven optimal.
#pragma once

#include "planner/api/plan_request.hpp"

namespace dtfm::api {

/// The same as search_and_simulate, but the plan is the best of all plans, and `found.stopped` is `optimal`,
/// if there are so few plans that all can be enumerated; with `prove`, five times as many. Plans that a
/// lower bound rules out are not simulated. Searches only with other objectives than iteration time, other
/// scenarios than the nominal one, a running plan, a Pareto front, or a limit of evaluations.
PlanResult search_and_enumerate(const PlanRequest& request);

}  // namespace dtfm::api
