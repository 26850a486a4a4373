// How many replicas partition the state of a layer.
#pragma once

#include "core/plan/plan.hpp"
#include "core/cluster/topology.hpp"

namespace dtfm {

/// Number n of replicas among which the optimizer sharding of `plan` partitions the state of every layer: all
/// of them. With `hierarchical` (HSDP: PyTorch's HYBRID_SHARD, arXiv 2304.11277), replicas share only with
/// those of their own site, and n is the smallest number of replicas that any layer has in a site that holds
/// it. If a site holds more, only n of them have optimizer state. 1 if nothing is sharded.
int sharing_replicas(const Topology& topology, const Plan& plan);

}  // namespace dtfm
