// Orders the computations of every device, once the paths of all micro-batches are known.
#pragma once

#include <optional>
#include <vector>

#include "planner/search/path_routing/path_router.hpp"

namespace dtfm::search {

/// A computation of a micro-batch: the next one on its path, forward or backward.
struct PlannedComputation {
  Interval time;
  int micro_batch = 0;
};

/// Schedules without idling: a device with a computation that is ready starts one. Backward passes go before
/// forward passes, then first come, first served; a device that holds `max_in_flight` micro-batches starts no
/// forward. Messages occupy their links one after another, in the order in which they become ready.
/// `resources` and the entries of `paths` are numbered as in RoutingProblem::message. Returns the
/// computations in the order of their start, or nothing if micro-batches deadlock, each waiting for room that
/// another one holds.
std::optional<std::vector<PlannedComputation>> dispatch(const RoutingProblem& problem,
                                                        const std::vector<const StageResource*>& resources,
                                                        const std::vector<std::vector<int>>& paths);

}  // namespace dtfm::search
