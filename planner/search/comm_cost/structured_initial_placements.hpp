// Placements to begin a search from, made from the structure of the network instead of at random.
#pragma once

#include <functional>
#include <vector>

#include "planner/search/comm_cost/search_run.hpp"

namespace dtfm::search {

/// Deployed placements, cheapest first, without repetition of a cost: the `block_initial_placements` of the clusters that
/// stand out most; and the devices, in an order in which similar ones are neighbours, cut into segments of so
/// many groups, within which blocks of so many neighbours are dealt to the groups in turn. Blocks of one
/// spread every site over the groups, blocks of a group's size keep sites whole, and segments keep unlike
/// parts of the network apart. All orders, segments and blocks of powers of two are tried; those with the
/// fastest exchange are deployed, as many as a limit of work allows.
/// The first one always, the others unless `stop` says so; then what is half-way is deployed as it is.
std::vector<DeployedPlacement> structured_initial_placements(const cost::CommCostModel& model, int threads,
                                        const std::function<bool()>& stop);

}  // namespace dtfm::search
