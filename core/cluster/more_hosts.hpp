// A topology with more hosts like one that it has.
#pragma once

#include <vector>

#include "core/cluster/topology.hpp"

namespace dtfm {

/// The devices of the host of `device`, ascending.
std::vector<int> host_devices(const Topology& topology, int device);

/// The topology with `count` more hosts like that of `device`, at its site. Their links to other hosts are
/// those of that host; those among each other and to that host are the links between hosts of its site, or,
/// if the site has no other host, its links to some other site, or else one inside the host. The topology has
/// at least two devices, because a single one has no links.
Topology with_more_hosts(const Topology& topology, int device, int count);

}  // namespace dtfm
