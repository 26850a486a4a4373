// Plans small problems: all plans are enumerated, so that the best one, as simulated, is proven optimal.
#pragma once

#include "planner/api/plan_request.hpp"

namespace dtfm::api {

/// The best plan of a problem with few plans, or, with `prove`, any that can be enumerated within about a
/// minute; `found.stopped` is then `optimal`. Plans that are ruled out by a lower bound are not simulated.
/// Nothing if there are too many plans, and for other objectives than iteration time, other scenarios than
/// the nominal one, a running plan, a Pareto front, or a limit of evaluations.
std::optional<PlanResult> plan_by_enumeration(const PlanRequest& request);

}  // namespace dtfm::api
