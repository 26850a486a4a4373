// Reads topology files (YAML) and validates them.
#pragma once

#include <filesystem>
#include <string>

#include "core/cluster/topology.hpp"

namespace dtfm::io {

/// Reads a topology file and the matrices that it names. Throws Error with file:line:column for any error in
/// them. The keys are those of device_inventory.hpp and link_rules.hpp, and
///   version: 1
///   name: text                       (default: the name of the file without its extension)
///   fairness: equal | rtt
///   measured: {latency: {file, unit}, bandwidth: {file, unit}}    instead of `links`; `latency` may be `rtt`
/// Paths of matrix files are relative to the topology's folder and must not lead out of it, because topology
/// files may be untrusted.
Topology read_topology(const std::filesystem::path& path);

/// The same for a text. `file` is used in messages; paths of matrix files are relative to `folder`.
Topology parse_topology(std::string text, const std::string& file, const std::filesystem::path& folder);

/// Replaces the links by measured ones (row = sender): one-way latencies in s, bandwidths in bit/s. Diagonals
/// are ignored. Throws Error "latency_s[0, 3]: …" unless both have a row and a column per device, latencies
/// are at least 0 and bandwidths above 0, and all are finite.
void set_measured_links(Topology& topology, Eigen::MatrixXd latency_s, Eigen::MatrixXd bandwidth_bps);

}  // namespace dtfm::io
