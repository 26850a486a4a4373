// What a search must know of devices that leave and rejoin.
#pragma once

#include <vector>

#include "planner/api/finalist_simulation.hpp"
#include "core/plan/problem.hpp"
#include "planner/search/iteration_time/iteration_search.hpp"

namespace dtfm::api {

/// The scenarios in which devices leave, for the search. A run without a horizon goes on after the last
/// event, which is counted as as long again.
std::vector<search::Churn> churn_of(const std::vector<NamedScenario>& scenarios, int devices);

/// Whether plans with a sharded optimizer can complete the scenario although devices may leave: with
/// checkpoints, and a policy that does not need what only the device had.
bool survives_sharded(const sim::Scenario& scenario);

/// The plans with as many micro-batches between two flushes as fit in memory, where their schedule keeps all
/// of them, so that pipelines can take over micro-batches of others. Until a pipeline stops, this takes no
/// time. Without the plans that flush as rarely already, or whose job or target decides.
std::vector<search::PlanCandidate> plans_with_flushes(const Problem& problem, Objective objective,
                                                      const std::vector<search::PlanCandidate>& plans);

}  // namespace dtfm::api
