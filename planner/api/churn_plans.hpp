// Plans for devices that leave and rejoin.
#pragma once

#include <vector>

#include "planner/api/finalist_simulation.hpp"
#include "core/plan/problem.hpp"
#include "planner/search/iteration_time/iteration_search.hpp"
#include "planner/search/iteration_time/plan_codec.hpp"

namespace dtfm::api {

/// Plans that may complete more iterations than the fastest ones if devices leave, to be simulated with them:
///   - the fastest of several depths, because a departure stops a whole pipeline;
///   - the same on only the devices that are available for longest, in the mean over all scenarios with
///     departures. The others are spares, if the policy has any;
///   - all of these, and `finalists`, with as many micro-batches between two flushes as fit in memory, so
///     that pipelines can take over micro-batches of others. Until a pipeline stops, this takes no time.
/// Returns fewer plans, or none, once `stop` of the options or their time limit ends the search, or if
/// `evaluations` of the options limit all searches together.
search::EvaluatedPlans churn_plans(const Problem& problem, const search::IterationSearchOptions& options,
                                   const std::vector<NamedScenario>& scenarios,
                                   const std::vector<search::PlanCandidate>& finalists);

}  // namespace dtfm::api
