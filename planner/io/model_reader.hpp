// Models as a job or a profile gives them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "planner/core/model.hpp"
#include "planner/io/yaml_reader.hpp"

namespace dtfm {

/// The `model:` of a job. Throws Error at its position.
Model read_model(const YamlValue& value);

/// Reads back as the same model.
nlohmann::ordered_json model_json(const Model& model);

/// A transformer but for its number of layers, in the words of a job's model.
Transformer read_shape(const YamlValue& value);
nlohmann::ordered_json shape_json(const Transformer& shape);

}  // namespace dtfm
