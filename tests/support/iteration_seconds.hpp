// Estimated and simulated duration of an iteration.
#pragma once

#include "planner/cost/iteration_time/iteration_time.hpp"
#include "tests/support/small_problems.hpp"

namespace dtfm {
using namespace cost;
using namespace sim;

inline double estimated_iteration_s(const Problem& problem, const Plan& plan) {
  return estimate_iteration(IterationModel(problem, plan.tensor), plan).iteration_s;
}

inline double simulated_iteration_s(const Problem& problem, const Plan& plan) {
  return replay_makespan(iteration_graph(problem, plan));
}

}  // namespace dtfm
