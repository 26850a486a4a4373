// The planner that a simulated run uses to replan after failures and joins.
#pragma once

#include "core/plan/problem.hpp"
#include "simulator/run/failure_policy.hpp"

namespace dtfm::api {

/// Returns a function that plans for the available devices by a short, deterministic search that starts from
/// the running plan (search::WarmStart). State migration is weighed against the gain over half an hour.
/// Decisions that the job leaves to the planner are not changed. The function returns nullopt if no plan
/// fits. `problem` must outlive it.
sim::Replanner make_replanner(const Problem& problem);

}  // namespace dtfm::api
