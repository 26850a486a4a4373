// Topologies whose numbering does not depend on the order of lines in their files.
#pragma once

#include <vector>

#include "core/cluster/topology.hpp"

namespace dtfm::api {

/// All devices, in an order that depends on the machines only. Sites with the fastest GPUs come first, then
/// those with the largest hosts, then the site with the most bandwidth to the one before it, or the least
/// latency. The hosts of a site, and the devices of a host, are in the order of their GPUs, rates, links and
/// prices. Machines that are equal in all of this are in the order of their names. Takes O(n²) steps for n
/// link classes, which are all devices if links are measured.
std::vector<int> canonical_order(const Topology& topology);

/// The same machines with devices, hosts, sites, GPUs and links numbered in canonical order. Ids and names
/// are those of `topology`. A canonical topology is returned unchanged, except for links that no pair of
/// devices has.
Topology canonical_topology(const Topology& topology);

}  // namespace dtfm::api
