// Topology files: YAML → Topology, everything checked.
#pragma once

#include <filesystem>
#include <string>

#include "planner/core/topology.hpp"

namespace dtfm::io {

/// Reads a topology file and the matrices it names. Throws Error with file:line:column for everything that is
/// not right. The keys are those of fleet_reader.hpp and link_rules.hpp, and
///   version: 1
///   name: text                       (default: the name of the file)
///   fairness: equal | rtt
///   measured: {latency: {file, unit}, bandwidth: {file, unit}}    instead of `links`; `rtt` instead of
///   `latency`
/// A matrix file is sought from the topology's folder, and only there and below: a topology may come from a
/// stranger.
Topology read_topology(const std::filesystem::path& path);

/// The same for a text; `file` is for messages, matrix files are sought in `folder`.
Topology parse_topology(std::string text, const std::string& file, const std::filesystem::path& folder);

}  // namespace dtfm::io
