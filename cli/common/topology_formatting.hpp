// Formats parts of topologies as text.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/cluster/topology.hpp"

namespace dtfm::cli {

/// "worldwide: 64 devices in 8 sites"
std::string format_topology_size(const Topology& topology);

/// Returns the name of the device's GPU, or "GPU not given".
std::string gpu_name(const Topology& topology, const Device& device);

/// Names and how often each occurs, in order of first occurrence.
using NameCounts = std::vector<std::pair<std::string, int>>;
NameCounts count_names(const std::vector<std::string>& names);
/// "8 × V100-16GB, 2 × A100-80GB"
std::string format_counts(const NameCounts& counts);

}  // namespace dtfm::cli
