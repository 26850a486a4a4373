// A measured network as the text of a topology file.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "planner/io/importers/network_measurements.hpp"

namespace dtfm::io {

struct LinkSettings {
  Seconds latency;
  BitsPerSecond bandwidth;
};

/// What the user says of the machines at all sites, or at one of them.
struct InventorySettings {
  std::string gpu;                                      // of all places that say none; empty: not known
  std::map<std::string, std::string> gpu_of;            // of a site
  std::optional<int> hosts;                             // of every site; else as measured
  std::map<std::string, int> hosts_of;                  // of a site
  std::optional<int> gpus_per_host;                     // of every site; else as measured
  std::optional<LinkSettings> within_site, within_host;  // between machines of a site, GPUs of a host
  std::string name = "imported";                        // of the topology
};

/// 1 to 128 bytes of UTF-8 without control characters.
bool is_valid_topology_name(const std::string& name);

/// A topology of all places and the links between them, which has been read back and found to be the same.
/// Throws Error where something is missing (a link within a site or a host that has several devices) or is
/// unknown (a GPU, a site that was not measured).
std::string format_topology(const NetworkMeasurements& measurements, const std::map<std::pair<int, int>, LinkSummary>& links,
                          const InventorySettings& settings);

}  // namespace dtfm::io
