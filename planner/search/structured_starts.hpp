// Placements to begin a search from, made from the structure of the network instead of at random.
#pragma once

#include <functional>
#include <vector>

#include "planner/search/search_run.hpp"

namespace dtfm {

/// Deployed placements, cheapest first, without repetition of a cost. The devices, in an order in which
/// similar ones are neighbours, are cut into segments of so many groups; within a segment, blocks of so many
/// neighbours are dealt to its groups in turn: blocks of one spread every site over the groups, blocks of a
/// group's size keep sites whole, and segments keep unlike parts of the network apart. All orders, segments
/// and blocks of powers of two are tried; and the `block_starts` of the clusters that stand out most.
/// The first one always, the others unless `stop` says so; then what is half-way is deployed as it is.
std::vector<Deployed> structured_starts(const CommCostModel& model, int threads,
                                        const std::function<bool()>& stop);

}  // namespace dtfm
