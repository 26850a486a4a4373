// Parses Megatron-LM's notation for the layers of pipeline stages: `Ettt|tt|ttL`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/text/input_errors.hpp"

namespace dtfm::io {

struct PipelineLayout {
  std::vector<int> layers;  // of each stage
  int predictions = 0;      // modules for multi-token prediction

  friend bool operator==(const PipelineLayout&, const PipelineLayout&) = default;
};

/// Parses the value of --pipeline-model-parallel-layout: stages are separated by |, E is the embedding, t a
/// layer, m a module for multi-token prediction, L the loss; `x*3` repeats x three times, where x is one of
/// these or a sequence in parentheses; commas are ignored (Megatron-LM,
/// megatron/core/transformer/pipeline_parallel_layer_layout.py). E must come first and L last, each exactly
/// once; all m are in one stage, after all t. Returns nullopt, and adds an error at `where`, for an invalid
/// layout.
std::optional<PipelineLayout> parse_layout(std::string_view layout, const std::string& where,
                                           InputErrors& errors);

}  // namespace dtfm::io
