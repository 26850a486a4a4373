// Modified topologies in which one part of the network is faster or slower.
#pragma once

#include <vector>

#include "core/cluster/topology.hpp"

namespace dtfm::cost {

/// Multiplies bandwidth and capacity of the links between hosts of two sites, in both directions, or within
/// one site (`site` = `other`). A rule that also covers other pairs of sites is split, so that these keep
/// their links; a bandwidth that a sender shares between both parts then exists once for each of them.
void scale_link(Topology& topology, int site, int other, double factor);

/// Doubles uplink and downlink of a site, and of its hosts and devices.
void double_site_access(Topology& topology, int site);

/// Returns the sites of `devices` at which some uplink or downlink is limited, in ascending order.
std::vector<int> limited_sites(const Topology& topology, const std::vector<int>& devices);

}  // namespace dtfm::cost
