// Parses what `nvidia-smi` prints about the GPUs of a host. All functions throw Error at `where`:line for
// text that does not have the documented form, and never read more than `max_host_gpus` GPUs.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/units.hpp"

namespace dtfm::io {

inline constexpr std::size_t max_host_gpus = 256;

struct QueriedGpu {
  int index;         // as nvidia-smi numbers it
  std::string name;  // of the driver, such as "NVIDIA H100 80GB HBM3"
  double memory_mib;
  std::string bus_id, uuid;

  Bytes memory() const { return Bytes(memory_mib * 1024 * 1024); }
};

/// `nvidia-smi --query-gpu=index,name,memory.total,pci.bus_id,uuid --format=csv,noheader,nounits`; a header
/// and units are accepted. Throws Error for no GPU and for an index that is given twice.
std::vector<QueriedGpu> parse_gpu_query(const std::string& text, const std::string& where);

struct PcieSlot {
  int generation, lanes;
};

/// `nvidia-smi --query-gpu=pcie.link.gen.max,pcie.link.width.max --format=csv,noheader,nounits`: one entry
/// per GPU, in the order of the other query, nullopt for those of which the driver does not know it.
std::vector<std::optional<PcieSlot>> parse_pcie_query(const std::string& text, const std::string& where);

/// A part of a GPU in MIG mode.
struct MigInstance {
  int gpu;              // index of its GPU
  std::string profile;  // such as "3g.20gb"
  double memory_gb;     // nominal, from the profile
};

/// `nvidia-smi -L`, which lists GPUs and their MIG instances; empty if no GPU is divided.
std::vector<MigInstance> parse_mig_instances(const std::string& text, const std::string& where);

struct ActiveNvlinks {
  int links = 0;
  std::optional<BitsPerSecond> rate;  // the smallest, in one direction, as signalled; nullopt without a link
};

/// `nvidia-smi nvlink -s`, by index of the GPU. GPUs without NVLink may be absent.
std::map<int, ActiveNvlinks> parse_nvlink_status(const std::string& text, const std::string& where);

}  // namespace dtfm::io
