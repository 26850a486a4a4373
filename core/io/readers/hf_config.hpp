// Reads models from Hugging Face's config.json.
#pragma once

#include <optional>
#include <string>

#include "core/model/model.hpp"

namespace dtfm::io {

/// Parses the text of a config.json of transformers. Missing keys have the defaults of transformers
/// (configs/model-families.yaml); `text_config` of a multimodal model is read instead of the whole, so that
/// its other parts do not count. `sequence` is the number of tokens per sequence; by default the smaller of
/// 4,096 and the rows of the model's table of positions, if it has one. Attention is flash attention without
/// dropout, as trainers have it. `element_bytes` is the size of an activation, 2 or 4.
///
/// Throws Error "file: /key: …" for a `model_type` that is unknown, for a key of unknown effect, and for a
/// value that is out of range or not supported.
Model parse_hf_config(const std::string& text, const std::string& file, std::optional<int> sequence,
                      double element_bytes);

}  // namespace dtfm::io
