// The planner that a run asks when machines come and go.
#pragma once

#include "planner/core/problem.hpp"
#include "simulator/run/failure_policy.hpp"

namespace dtfm::api {

/// Goes on from the plan that runs, on the devices that are there, by a short search (planner/search,
/// WarmStart), the same every time; what has to move is weighed against what is gained over half an hour.
/// What the job leaves open stays as it is. Nothing where no plan fits. `problem` must outlive it.
sim::Replanner make_replanner(const Problem& problem);

}  // namespace dtfm::api
