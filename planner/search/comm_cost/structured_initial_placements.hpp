// Initial placements derived from the structure of the network.
#pragma once

#include <vector>

#include "planner/search/comm_cost/search_run.hpp"

namespace dtfm::search {

/// Returns deployed placements, cheapest first, with distinct costs. They come from two sources: the
/// `block_initial_placements` of the most pronounced clusters; and the devices, in an order in which similar
/// ones are neighbours, cut into segments of several groups, within which blocks of neighbours are assigned
/// to the groups in turn. Blocks of one device spread every site over the groups, blocks of a group's size
/// keep sites whole, and segments separate dissimilar parts of the network. All orders, and segments and
/// blocks of powers of two, are tried; those with the fastest gradient synchronization are deployed, as many
/// as a limit on work allows.
///
/// At least one placement is always deployed. Once the work is stopped, no others are, and unfinished ones
/// are deployed as they are.
std::vector<DeployedPlacement> structured_initial_placements(const cost::CommCostModel& model,
                                                             const Work& work);

}  // namespace dtfm::search
