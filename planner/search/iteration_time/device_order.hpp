// Which devices are near each other: what starts of a search are laid out along.
#pragma once

#include <vector>

#include "planner/cost/iteration_time/network_cost.hpp"

namespace dtfm::search {

/// All devices, so that those between which messages of `bytes` are fast stand together at every scale: the
/// leaves of the single-linkage tree (Prim's minimum spanning tree, whose edges join neighbouring stretches
/// from the shortest on). n² steps.
std::vector<int> nearness_order(const Topology& topology, const cost::NetworkCost& network, double bytes);

/// As many devices of one host as a stage has; devices left over are in none. In the order in which their
/// first devices stand in `order`.
std::vector<std::vector<int>> stage_tensor_groups(const Topology& topology, const std::vector<int>& order,
                                                  int tensor);

/// The same for stages of several tensor degrees, ascending: on every host as many of the largest as it has
/// devices for, then of the next.
std::vector<std::vector<int>> stage_tensor_groups(const Topology& topology, const std::vector<int>& order,
                                                  const std::vector<int>& tensors);

}  // namespace dtfm::search
