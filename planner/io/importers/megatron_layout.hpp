// The layers of pipeline stages as Megatron-LM writes them down: `Ettt|tt|ttL`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/io/text/input_errors.hpp"

namespace dtfm::io {

/// The value of --pipeline-model-parallel-layout: stages between |, E the embedding, t a layer, L the loss;
/// `x*3` is x three times, x one of these or a sequence in parentheses; commas mean nothing (Megatron-LM,
/// megatron/core/transformer/pipeline_parallel_layer_layout.py). E comes first, L last, each once.
///
/// The layers of each stage; nothing, and a fault at `where`, for what is not such a layout, and for `m`
/// (multi-token prediction), which plans do not know.
std::optional<std::vector<int>> parse_layout(std::string_view layout, const std::string& where,
                                              InputErrors& errors);

}  // namespace dtfm::io
