// Reads the preset models that a job can name.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/model/model.hpp"
#include "core/io/text/yaml_reader.hpp"

namespace dtfm::io {

/// The transformers of configs/models.yaml, in its order.
std::vector<std::pair<std::string, Transformer>> preset_transformers();
/// Names of these and of all other presets.
std::vector<std::string> preset_names();

/// Reads `{preset: NAME, …}`: a transformer of configs/models.yaml, whose values the other keys override;
/// `resnet-50` or `vgg-16` with `image` (side in pixels, default 224) and `classes` (default 1000); or `mlp`
/// with `widths`. `preset` is the value of that key; `element_bytes` is the size of an activation element, 2
/// or 4. Throws Error at the invalid value.
Model read_preset(const YamlValue& value, const YamlValue& preset, double element_bytes);

}  // namespace dtfm::io
