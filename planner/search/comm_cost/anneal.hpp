// Simulated annealing of placements: swaps two devices, or two segments of consecutive stages. The local
// search of the evolutionary strategy.
#pragma once

#include "core/base/rng.hpp"
#include "planner/search/comm_cost/search_run.hpp"

namespace dtfm::search {

struct CoolingSchedule {
  long long moves = 0;                                    // number of moves to try
  double initial_temperature = 0, final_temperature = 0;  // s, geometric in between
  double guidance = 0;                                    // see CommCostState
  double time_share = 0;  // share of the run's time limit; if > 0, it ends the cooling instead of `moves`
};

struct AnnealedPlacement {
  DeployedPlacement best;
  long long moves = 0;  // number of moves tried
};

/// Anneals from `start` and returns the best deployed placement. Stops early when `run.must_stop()`.
AnnealedPlacement anneal_placement(const SearchRun& run, const Placement& start,
                                   const CoolingSchedule& cooling, Rng& rng);

}  // namespace dtfm::search
