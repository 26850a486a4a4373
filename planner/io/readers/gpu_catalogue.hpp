// The GPUs that topologies can name: configs/gpus.yaml, compiled in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/core/topology.hpp"
#include "planner/io/text/yaml_reader.hpp"

namespace dtfm::io {

/// configs/gpus.yaml.
std::vector<Gpu> built_in_gpus();

/// A whole catalogue file.
std::vector<Gpu> parse_gpu_catalogue(std::string text, std::string file);

/// The items {name, memory, peak} of a list, the peak optional. Throws Error for a name that is given twice.
std::vector<Gpu> read_gpus(const YamlValue& list);

/// `gpus` with those of the same name replaced by `extension`'s and its others added.
std::vector<Gpu> merge_gpus(std::vector<Gpu> gpus, const std::vector<Gpu>& extension);

}  // namespace dtfm::io
