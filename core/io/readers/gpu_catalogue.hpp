// Reads the catalogue of GPUs that topologies can name: configs/gpus.yaml, which is compiled in.
#pragma once

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

/// Returns `gpus`, where GPUs of `extension` replace those of the same name and the others are appended.
std::vector<Gpu> merge_gpus(std::vector<Gpu> gpus, const std::vector<Gpu>& extension);

}  // namespace dtfm::io
