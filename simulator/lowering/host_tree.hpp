// Trees by which NCCL reduces and broadcasts between hosts.
#pragma once

#include <span>

#include "core/cluster/calibration.hpp"
#include "core/cluster/topology.hpp"

namespace dtfm::sim {

/// Latency and overhead of messages on the longest path to the root of a tree and back, divided by those of a
/// ring all-reduce, at most 1. Also 1 if the devices are on one host or at several sites, or if their
/// messages have a transport.
///
/// Hosts, in the order of their first devices, form the binary tree of NCCL 2.2x (ncclGetBtree of
/// src/graph/trees.cc), and the devices of each host a chain. The ring is that of HostChannels.
double tree_share(const Topology& topology, const Calibration& constants, std::span<const int> devices);

}  // namespace dtfm::sim
