// What transformers have beyond equal blocks of ordinary attention and one MLP, whose matrices all have
// biases or none do. Kernels, low-rank compression and exporters say which of it they support.
#pragma once

#include <span>
#include <string_view>

#include "core/model/transformer.hpp"

namespace dtfm {

enum class ModelFeature : unsigned char {
  latent_attention,
  experts,
  mamba_2,
  delta_net,
  no_attention,
  no_mlp,
  block_kinds,
  window,
  prediction,
  attention_gate,
  attention_sinks,
  qkv_biases,
  some_biases,
  layer_norm_without_bias,
  norm_without_parameters,
  norms_per_block,
  qk_norm_of_all_heads,
  embedding_width,
  embedding_norm,
  no_final_norm
};

struct ModelFeatureTraits {
  ModelFeature kind;
  std::string_view name;  // in "the model has …"
  bool (*is_in)(const Transformer&);
};

/// A row for each value, in the order of the enum.
std::span<const ModelFeatureTraits> model_feature_table();
std::string_view name_of(ModelFeature feature);

/// The name of the first feature of the model that is not among `supported`; empty if there is none.
std::string_view unsupported_feature(const Transformer& model, std::span<const ModelFeature> supported);

/// The name of the first feature of the model; empty if it has plain blocks.
inline std::string_view beyond_plain_blocks(const Transformer& model) {
  return unsupported_feature(model, {});
}

/// Which matrices of the blocks have biases.
enum class BiasPattern : unsigned char { none, all, qkv, other };
BiasPattern bias_pattern(const Transformer& model);

}  // namespace dtfm
