// Reads the hosts that topologies can name: configs/hosts.yaml, which is compiled in.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/units.hpp"

namespace dtfm::io {

/// A kind of host that can be bought or rented.
struct HostTemplate {
  std::string name;
  std::string gpu;  // in configs/gpus.yaml
  int gpus = 1;
  double gpu_link_share = 1;                 // of its GPU's `interconnect` that collectives reach
  Seconds gpu_latency, network_latency;      // one way, between GPUs of the host and between two hosts
  BitsPerSecond network, network_per_gpu;    // in each direction: of the host, and of a single GPU
  std::optional<DollarsPerHour> price = {};  // of one GPU with its share of the host
};

/// Bandwidth between the NUMA nodes of a host with CPUs of one kind.
struct NumaLink {
  std::string vendor;  // of the CPUs
  int min_model;
  BitsPerSecond rate;  // one direction, for messages between GPUs
};

/// Links of any host, as configs/hosts.yaml gives them.
struct HostLinks {
  Seconds direct_latency, pcie_latency;  // one way, between GPUs of a host
  double direct_share;                   // of the rate of direct links that collectives reach
  std::vector<BitsPerSecond> pcie;       // one direction of 16 lanes, of generations 1, 2, …
  std::vector<NumaLink> numa;            // the first that matches applies

  /// nullopt for CPUs that are not in the table.
  std::optional<BitsPerSecond> numa_rate(const std::string& cpu_vendor, int cpu_model) const;
};
HostLinks built_in_host_links();

/// The hosts of configs/hosts.yaml, in its order.
std::vector<HostTemplate> built_in_hosts();

/// Parses a file of hosts, a map with `version: 1`, `latencies` and `hosts`. Throws Error at
/// file:line:column.
std::vector<HostTemplate> parse_host_templates(std::string text, std::string file);

}  // namespace dtfm::io
