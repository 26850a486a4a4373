// Parses the topology of a host as NCCL sees it: the XML that it writes to NCCL_TOPO_DUMP_FILE.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/io/importers/cpu_kind.hpp"
#include "core/io/importers/nvidia_smi.hpp"

namespace dtfm::io {

struct NcclGpu {
  int index;  // attribute `dev`: as NCCL and nvidia-smi number it
  std::string bus_id;
  std::optional<int> numa_node;
  std::optional<PcieSlot> slot;
  int switch_links = 0;              // NVLinks that end at switches
  std::map<std::string, int> links;  // other NVLinks, by bus id of their end
};

struct NcclNetwork {
  std::string name;
  BitsPerSecond rate;
};

struct NcclTopology {
  std::vector<NcclGpu> gpus;
  std::vector<NcclNetwork> networks;
  std::optional<CpuKind> cpu;
};

/// Throws Error at `where`:line for text that is not such a file.
NcclTopology parse_nccl_topology(const std::string& text, const std::string& where);

}  // namespace dtfm::io
