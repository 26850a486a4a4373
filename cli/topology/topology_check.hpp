// Summary of a topology, and warnings of probable mistakes in it.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/cluster/topology.hpp"

namespace dtfm::cli {

/// Warnings of one line each. They do not prevent planning.
std::vector<std::string> topology_warnings(const Topology& topology);

/// Summary and warnings; with `quiet`, only the warnings.
std::string format_topology_check(const Topology& topology, const std::vector<std::string>& warnings,
                                  bool quiet);
/// The same as JSON, schema dtfm-topology-check/1.
nlohmann::ordered_json topology_check_json(const Topology& topology,
                                           const std::vector<std::string>& warnings);

}  // namespace dtfm::cli
