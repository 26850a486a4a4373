// Transformers by their numbers, in the words of a job's model.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "planner/core/model.hpp"
#include "planner/io/text/yaml_reader.hpp"

namespace dtfm::io {

/// The keys that `read_transformer` reads, and `others`.
std::vector<std::string_view> transformer_keys(std::initializer_list<std::string_view> others);

/// `model` but for what `map` says. Numbers that `model` has none of yet are required, unless they have a
/// default. Throws Error at the value that is wrong.
Transformer read_transformer(const YamlMap& map, Transformer model);

/// A transformer but for its number of layers.
Transformer read_shape(const YamlValue& value);
nlohmann::ordered_json shape_json(const Transformer& shape);

}  // namespace dtfm::io
