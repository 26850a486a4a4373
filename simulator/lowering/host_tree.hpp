// Trees by which NCCL reduces and broadcasts between hosts.
#pragma once

#include <span>

#include "core/cluster/topology.hpp"

namespace dtfm::sim {

/// Longest way that data take to the root of a tree and back, divided by that around a ring, at most 1; 1 as
/// well if the devices are on one host or at several sites, or their messages have a transport.
///
/// Hosts, in the order of their first devices, form the binary tree of NCCL 2.2x (ncclGetBtree of
/// src/graph/trees.cc), and the devices of each host a chain. The ring is that of HostChannels.
double tree_latency_share(const Topology& topology, std::span<const int> devices);

}  // namespace dtfm::sim
