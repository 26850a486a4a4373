// Networks in which one thing is faster.
#pragma once

#include <vector>

#include "planner/core/topology.hpp"

namespace dtfm::cost {

/// Twice the bandwidth and capacity of what is between the hosts of two sites, in both directions, or of one
/// site. An entry of the rules that is for more pairs of sites stays as it is for the others; what a sender
/// shares among the two becomes two.
void double_link(Topology& topology, int site, int other);

/// Twice the uplink and downlink of a site, and of its hosts and devices.
void double_site_access(Topology& topology, int site);

/// Sites of `devices` where some uplink or downlink is limited, in ascending order.
std::vector<int> limited_sites(const Topology& topology, const std::vector<int>& devices);

}  // namespace dtfm::cost
