// Reads and writes the models of jobs.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "core/model/model.hpp"
#include "core/io/readers/transformer_reader.hpp"
#include "core/io/text/named_file.hpp"
#include "core/io/text/yaml_reader.hpp"

namespace dtfm::io {

/// Reads the `model:` of a job. `element_bytes` is the size of an activation element, 2 or 4; `open_file`
/// reads the file of an operator graph, which is partitioned into a chain of layers. Throws Error at
/// file:line:column.
Model read_model(const YamlValue& value, double element_bytes, const FileReader& open_file);

/// The model of `--model`: a preset, or else the config.json of this name. `sequence` is the number of tokens
/// per sequence, if given. Throws Error.
Model read_named_model(const std::string& name, std::optional<int> sequence, double element_bytes);

/// JSON that read_model reads back as the same model.
nlohmann::ordered_json model_json(const Model& model);

}  // namespace dtfm::io
