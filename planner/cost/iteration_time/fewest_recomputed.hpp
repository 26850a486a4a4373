// How many layers of a stage are recomputed or offloaded as needed (Recomputation::as_needed, offload).
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "core/cluster/topology.hpp"
#include "planner/cost/iteration_time/in_flight.hpp"
#include "planner/cost/iteration_time/stage_cost.hpp"

namespace dtfm::cost {

/// Bytes of the device with least memory; infinity if that of all is unknown.
double least_memory(const Topology& topology, const std::vector<int>& devices);

/// The fewest first layers of every virtual stage `chunks` of a device whose recomputation makes it fit in
/// `capacity` bytes while it holds the micro-batches `held`; if it never fits, all layers, or none if that
/// needs less. If every layer keeps less when it is recomputed, memory is assumed to fall with their number
/// from the first on. A later layer that is much larger while it is computed can break this: the result then
/// still fits, but fewer might.
int fewest_recomputed(const StageCosts& costs, std::span<const std::pair<int, int>> chunks, int replicas,
                      const InFlightMicroBatches& held, double capacity);

}  // namespace dtfm::cost
