// Models that a job can name.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planner/core/model.hpp"
#include "planner/io/text/yaml_reader.hpp"

namespace dtfm::io {

/// The transformers of configs/models.yaml, in its order.
std::vector<std::pair<std::string, Transformer>> preset_transformers();
/// Of these and of all others.
std::vector<std::string> preset_names();

/// `{preset: NAME, …}`: a transformer of configs/models.yaml, where the other keys take the place of its own,
/// `resnet-50` or `vgg-16` with `image` (its side: 224) and `classes` (1000), or `mlp` with `widths`.
/// `preset` is the value of that key; `element_bytes`, those of an activation: 2 or 4. Throws Error at the
/// value that is wrong.
Model read_preset(const YamlValue& value, const YamlValue& preset, double element_bytes);

}  // namespace dtfm::io
