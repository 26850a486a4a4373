// Simulated annealing by swaps of two devices and exchanges of two runs of stages: the local search of the
// evolutionary strategy.
#pragma once

#include "planner/core/rng.hpp"
#include "planner/search/comm_cost/search_run.hpp"

namespace dtfm::search {

struct CoolingSchedule {
  long long moves = 0;              // to try
  double initial_temperature = 0, final_temperature = 0;  // temperatures in s, geometric in between
  double guidance = 0;              // of CommCostState
  double time_share = 0;  // > 0: of the run's time limit, which then ends the cooling instead of `moves`
};

struct AnnealedPlacement {
  DeployedPlacement best;
  long long moves = 0;  // tried
};

/// Stops early when `run` must.
AnnealedPlacement anneal_placement(const SearchRun& run, const Placement& start, const CoolingSchedule& cooling, Rng& rng);

}  // namespace dtfm::search
