// How many replicas partition the state of a layer.
#pragma once

#include <vector>

#include "core/plan/plan.hpp"
#include "core/cluster/topology.hpp"

namespace dtfm {

/// Number n of replicas among which the optimizer sharding of `plan` partitions the state of every layer: all
/// of them. With `hierarchical` (HSDP: PyTorch's HYBRID_SHARD, arXiv 2304.11277), replicas share only with
/// those of their own site, and n is the smallest number of replicas that any layer has in a site that holds
/// it. If a site holds more, only n of them have optimizer state. With `hierarchical-ring`, n is the largest
/// number that divides the pipelines into equal instances, each with pipelines of the same sites
/// (pipeline_sites). 1 if nothing is sharded.
int sharing_replicas(const Topology& topology, const Plan& plan);

/// The site of every device, stage by stage.
std::vector<int> pipeline_sites(const Topology& topology, const Pipeline& pipeline);

}  // namespace dtfm
