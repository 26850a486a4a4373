// Writes the topology file of hosts whose GPUs were detected, with comments that say where each number comes
// from.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/io/importers/cpu_kind.hpp"
#include "core/io/importers/gpu_matrix.hpp"
#include "core/io/importers/nccl_topology.hpp"
#include "core/io/importers/network_measurements.hpp"
#include "core/io/importers/nvidia_smi.hpp"
#include "core/io/importers/slurm_nodes.hpp"
#include "core/io/writers/topology_writer.hpp"

namespace dtfm::io {

/// What is known about the GPUs of a host: from its driver, or only from Slurm.
struct DetectedHost {
  std::string site, name;
  std::vector<QueriedGpu> gpus;                // empty if only Slurm knows them
  std::vector<std::optional<PcieSlot>> slots;  // by position in `gpus`; empty if not known
  std::optional<GpuMatrix> matrix;
  std::optional<CpuKind> cpu;
  std::map<int, ActiveNvlinks> nvlinks;  // by index of the GPU; empty if not known
  std::vector<MigInstance> instances;    // of GPUs in MIG mode
  std::vector<SlurmGpus> slurm_gpus;     // if `gpus` is empty
  std::string network_switch;            // next to it; empty if not known
  std::optional<NcclTopology> nccl;
  std::optional<LinkSettings> within;  // measured, if its links are all equal
};

struct DetectionSettings {
  std::string name = "detected";              // of the topology
  std::map<std::string, std::string> gpu_of;  // names in the catalogue, by those of the driver or of Slurm
  std::optional<LinkSettings> within_host, between_hosts, between_sites;  // override what was detected
};

/// Links between hosts, by indices of hosts: from, to.
using HostLinkMap = std::map<std::pair<int, int>, LinkSummary>;

/// The text of a topology file, which is verified by parsing it again. GPUs that are not in the catalogue get
/// an entry in `gpus` with what the driver says. `measured` has all pairs of hosts, or none. Throws Error,
/// with the name of the host, for what is not known and how to give it.
std::string format_detected_topology(const std::vector<DetectedHost>& hosts, const HostLinkMap& measured,
                                     const DetectionSettings& settings);

}  // namespace dtfm::io
