// Placements to begin a search from in which every pipeline stays in one place for many stages.
#pragma once

#include <functional>
#include <vector>

#include "planner/search/comm_cost/device_classes.hpp"
#include "planner/search/comm_cost/search_run.hpp"

namespace dtfm::search {

/// Where links within a cluster are much faster than the others, the best placements that are known consist
/// of few blocks: runs of consecutive stages whose groups hold equally many devices of each cluster, so that
/// all hops within a block stay within clusters, and only those between blocks are slow. For every way to cut
/// the stages into blocks, annealing over how many pipelines of each block lie in which cluster finds the
/// cheapest, by the mean costs between clusters. Of all those, the `most` cheapest, deployed.
std::vector<DeployedPlacement> block_initial_placements(const cost::CommCostModel& model, const DeviceClasses& clusters, int most,
                                   int threads, const std::function<bool()>& stop);

}  // namespace dtfm::search
