// Writes the topology file of a measured network.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/io/importers/network_measurements.hpp"

namespace dtfm::io {

struct LinkSettings {
  Seconds latency;
  BitsPerSecond bandwidth;
};

/// What the user specifies about the machines at all sites or at a single site.
struct InventorySettings {
  std::string gpu;                                       // at all sites; empty if as measured
  std::map<std::string, std::string> gpu_of;             // by site; overrides `gpu`
  std::optional<int> hosts;                              // per site; nullopt if as measured
  std::map<std::string, int> hosts_of;                   // by site; overrides `hosts`
  std::optional<int> gpus_per_host;                      // at all sites; nullopt if as measured
  std::optional<LinkSettings> within_site, within_host;  // between hosts of a site, and GPUs of a host
  std::string name = "imported";                         // of the topology
};

/// Whether `name` has 1 to 128 bytes of UTF-8 without control characters.
bool is_valid_topology_name(const std::string& name);

/// The text of a topology file with all endpoints and the links between them, which is verified by parsing it
/// again. Throws Error if something is missing (the link within a site or a host that has several devices) or
/// unknown (a GPU, a site that was not measured).
std::string format_topology(const NetworkMeasurements& measurements,
                            const std::map<std::pair<int, int>, LinkSummary>& links,
                            const InventorySettings& settings);

}  // namespace dtfm::io
