// Seconds of an iteration, estimated and simulated.
#pragma once

#include "planner/cost/iteration_time/iteration_time.hpp"
#include "tests/support/simulated.hpp"

namespace dtfm {
using namespace cost;
using namespace sim;

inline double estimated(const Problem& problem, const Plan& plan) {
  return iteration_estimate(IterationModel(problem, plan.tensor), plan).iteration_s;
}

inline double simulated(const Problem& problem, const Plan& plan) {
  return makespan_of(iteration_graph(problem, plan));
}

}  // namespace dtfm
