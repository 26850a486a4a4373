// The simulator as one call.
#pragma once

#include <functional>
#include <vector>

#include "planner/core/plan.hpp"
#include "simulator/problem.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/run/observer.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm {

struct SimOptions {
  int iterations = 3;  // the first is reported apart; a scenario's horizon takes their place
  std::uint64_t seed = 0;
  std::function<bool()> stop;           // asked between stretches; nothing: never
  std::vector<RunObserver*> observers;  // beside the report's own
};

/// Replays `plan` under `scenario`. The same arguments give the same report on any machine with the same
/// compiler.
SimReport simulate(const SimProblem& problem, const Plan& plan, const Scenario& scenario,
                   const SimOptions& options);

}  // namespace dtfm
