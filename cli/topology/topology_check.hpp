// What a topology holds, and what in it looks like a mistake.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "planner/core/topology.hpp"

namespace dtfm::cli {

/// A line each; none of them keeps anyone from planning.
std::vector<std::string> topology_warnings(const Topology& topology);

/// With `quiet`, the warnings alone.
std::string format_topology_check(const Topology& topology, const std::vector<std::string>& warnings, bool quiet);
nlohmann::ordered_json topology_check_json(const Topology& topology, const std::vector<std::string>& warnings);

}  // namespace dtfm::cli
