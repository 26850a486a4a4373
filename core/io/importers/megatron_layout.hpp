// Parses Megatron-LM's notation for the layers of pipeline stages: `Ettt|tt|ttL`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/text/input_errors.hpp"

namespace dtfm::io {

/// Parses the value of --pipeline-model-parallel-layout: stages are separated by |, E is the embedding, t a
/// layer, L the loss; `x*3` repeats x three times, where x is one of these or a sequence in parentheses;
/// commas are ignored (Megatron-LM, megatron/core/transformer/pipeline_parallel_layer_layout.py). E must come
/// first and L last, each exactly once.
///
/// Returns the number of layers of each stage. Returns nullopt, and adds an error at `where`, for an invalid
/// layout and for `m` (multi-token prediction), which plans do not support.
std::optional<std::vector<int>> parse_layout(std::string_view layout, const std::string& where,
                                             InputErrors& errors);

}  // namespace dtfm::io
