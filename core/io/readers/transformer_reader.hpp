// Reads and writes transformers, with the keys of a job's model.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/model/model.hpp"
#include "core/io/text/yaml_reader.hpp"

namespace dtfm::io {

/// Of any model, whatever its file.
inline constexpr int max_layers = 100'000;

/// `others`, followed by the keys that `read_transformer` reads.
std::vector<std::string_view> transformer_keys(std::initializer_list<std::string_view> others);

/// Returns `model` with the values of `map`. Keys without a default are required if `model` does not have
/// their value (0). Throws Error at the invalid value.
Transformer read_transformer(const YamlMap& map, Transformer model);

/// Reads a transformer without its number of layers, which stays 0.
Transformer read_shape(const YamlValue& value);
/// JSON that read_shape reads back as the same shape.
nlohmann::ordered_json shape_json(const Transformer& shape);

}  // namespace dtfm::io
