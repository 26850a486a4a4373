// Reads the catalogue of GPUs that topologies can name: configs/gpus.yaml, which is compiled in.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/cluster/topology.hpp"
#include "core/io/text/yaml_reader.hpp"

namespace dtfm::io {

/// The GPUs of configs/gpus.yaml.
std::vector<Gpu> built_in_gpus();

/// Parses a catalogue file, a map with `version: 1` and `gpus`. Throws Error at file:line:column.
std::vector<Gpu> parse_gpu_catalogue(std::string text, std::string file);

/// Reads a list of GPUs, whose keys are those of configs/gpus.yaml. `name` and `memory` are required. Throws
/// Error for duplicate names.
std::vector<Gpu> read_gpus(const YamlValue& list);

/// The GPU that the driver, or Slurm after it, calls `name`; nullptr if there is none. Case, the brands
/// NVIDIA, Tesla, GeForce and Quadro, and the characters between words do not matter.
const Gpu* find_gpu_by_driver_name(std::span<const Gpu> gpus, std::string_view name);
/// The same for its name in the catalogue: `rtx_3090` is the RTX-3090.
const Gpu* find_gpu_by_similar_name(std::span<const Gpu> gpus, std::string_view name);

/// Whether the driver may report `memory` for this GPU. 16 GiB sold as 16 GB are 7 % more; MIG instances have
/// half or less.
bool has_memory(const Gpu& gpu, Bytes memory);

/// NVLinks of the GPU, if they are its `interconnect`; nullopt if that is its PCIe slot or unknown.
std::optional<int> built_in_nvlinks(const Gpu& gpu);

/// Returns `gpus`, where GPUs of `extension` replace those of the same name and the others are appended.
std::vector<Gpu> merge_gpus(std::vector<Gpu> gpus, const std::vector<Gpu>& extension);

}  // namespace dtfm::io
