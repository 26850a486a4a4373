// Initial placements in which every pipeline stays within one cluster of devices for many stages.
#pragma once

#include <vector>

#include "planner/search/comm_cost/device_classes.hpp"
#include "planner/search/comm_cost/search_run.hpp"

namespace dtfm::search {

/// If links within clusters are much faster than between them, the best known placements consist of few
/// blocks. A block is a run of consecutive stages whose groups hold equally many devices of each cluster, so
/// that all hops within a block stay within clusters and only those between blocks are slow. For every way to
/// cut the stages into blocks, annealing over the number of pipelines of each block in each cluster finds the
/// cheapest assignment, using the mean costs between clusters. Returns the `max_count` cheapest of all,
/// deployed.
std::vector<DeployedPlacement> block_initial_placements(const cost::CommCostModel& model,
                                                        const DeviceClasses& clusters, int max_count,
                                                        const Work& work);

}  // namespace dtfm::search
