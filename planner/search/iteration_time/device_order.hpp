// Orders devices by proximity, the basis of initial layouts.
#pragma once

#include <vector>

#include "planner/cost/iteration_time/network_cost.hpp"

namespace dtfm::search {

/// All devices, ordered so that those between which messages of `bytes` are fast are close to each other at
/// every scale: the leaves of the single-linkage tree (Prim's minimum spanning tree, whose edges join
/// neighbouring segments, shortest first). Takes O(n²) steps.
std::vector<int> nearness_order(const Topology& topology, const cost::NetworkCost& network, double bytes);

/// Tensor-parallel groups of `tensor` devices of one host, in the order of their first devices in `order`.
/// Devices left over are in no group.
std::vector<std::vector<int>> stage_tensor_groups(const Topology& topology, const std::vector<int>& order,
                                                  int tensor);

/// Groups of `devices`, a multiple of `tensor`. If no host has so many, each consists of parts on several
/// hosts of one site, as few as possible, of which each has whole tensor-parallel groups.
std::vector<std::vector<int>> stage_groups(const Topology& topology, const std::vector<int>& order,
                                           int devices, int tensor);

/// The same for several tensor degrees (ascending): every host forms as many groups of the largest degree as
/// possible, then of the next. `max_degrees`: by device; if empty, there is no limit.
std::vector<std::vector<int>> stage_tensor_groups(const Topology& topology, const std::vector<int>& order,
                                                  const std::vector<int>& tensors,
                                                  const std::vector<int>& max_degrees = {});

}  // namespace dtfm::search
