// Reads scenario files (docs/files/scenario.md).
#pragma once

#include <filesystem>
#include <string>

#include "core/cluster/topology.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::io {

/// Files that the scenario names must lie below its folder. Throws Error with file:line:column, also for
/// errors in those files.
sim::Scenario read_scenario(const std::filesystem::path& path, const Topology& topology);
sim::Scenario parse_scenario(std::string text, const std::string& file, const std::filesystem::path& folder,
                             const Topology& topology);

}  // namespace dtfm::io
