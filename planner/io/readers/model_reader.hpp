// Models as a job or a profile gives them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "planner/core/model.hpp"
#include "planner/io/text/named_file.hpp"
#include "planner/io/readers/transformer_reader.hpp"
#include "planner/io/text/yaml_reader.hpp"

namespace dtfm::io {

/// The `model:` of a job. `element_bytes` is that of an activation, 2 or 4; `open` opens the file of an
/// operator graph, which becomes a chain of layers. Throws Error at its position.
Model read_model(const YamlValue& value, double element_bytes, const FileReader& open_file);

/// Reads back as the same model.
nlohmann::ordered_json model_json(const Model& model);

}  // namespace dtfm::io
