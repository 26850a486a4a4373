// Part of a topology, to plan only for some of its devices.
#pragma once

#include <vector>

#include "core/plan/plan.hpp"
#include "core/cluster/topology.hpp"

namespace dtfm::api {

/// Some devices of a topology, with their indices in it.
struct SubTopology {
  Topology topology;
  std::vector<int> whole;    // index in the whole topology, by device of the part
  std::vector<int> in_part;  // index in the part or no_device, by device of the whole
};

/// These devices, in this order. Sites, hosts and GPUs keep their indices.
SubTopology sub_topology(const Topology& whole, std::vector<int> devices);
/// `is_included`: by device.
SubTopology sub_topology(const Topology& whole, const std::vector<bool>& is_included);

/// `numbers`: the new index of each device.
Plan renumber_devices(Plan plan, const std::vector<int>& numbers);

}  // namespace dtfm::api
