// Whose turn it is on each device, once the ways of all micro-batches are known.
#pragma once

#include <optional>
#include <vector>

#include "planner/search/path_routing/path_router.hpp"

namespace dtfm::search {

/// Of one micro-batch: the next in its turn, along its way and back.
struct PlannedComputation {
  Interval time;
  int micro_batch = 0;
};

/// No device is idle while there is something that it can compute: a backward before a forward, then who came
/// first; no forward while it holds as many micro-batches as it can. Messages have their links one after the
/// other, in the order in which they are ready. `stations` and each of `ways`: by the numbers of
/// RoutingProblem::message. Computations are in the order of their begin. Nothing where micro-batches wait
/// for room that each other takes, for ever.
std::optional<std::vector<PlannedComputation>> dispatch(const RoutingProblem& problem,
                                                          const std::vector<const StageResource*>& resources,
                                                          const std::vector<std::vector<int>>& paths);

}  // namespace dtfm::search
