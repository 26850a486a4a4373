#include "core/model/model_features.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "core/base/kind_table.hpp"

namespace dtfm {
namespace {

template <Mixer mixer>
bool has_mixer(const Transformer& model) {
  return has_block(model, mixer);
}

template <Mlp mlp>
bool has_mlp(const Transformer& model) {
  return has_block(model, mlp);
}

constexpr auto features = std::to_array<ModelFeatureTraits>({
    {ModelFeature::latent_attention, "latent attention",
     [](const Transformer& it) { return it.latent.kv_rank > 0; }},
    {ModelFeature::experts, "experts", has_mlp<Mlp::experts>},
    {ModelFeature::mamba_2, "Mamba-2 blocks", has_mixer<Mixer::mamba_2>},
    {ModelFeature::delta_net, "gated delta nets", has_mixer<Mixer::delta_net>},
    {ModelFeature::no_attention, "blocks without attention", has_mixer<Mixer::none>},
    {ModelFeature::no_mlp, "blocks without an MLP", has_mlp<Mlp::none>},
    {ModelFeature::block_kinds, "blocks of several kinds",
     [](const Transformer& it) { return !it.blocks.empty(); }},
    {ModelFeature::window, "a window of attention", has_mixer<Mixer::window_attention>},
    {ModelFeature::prediction, "modules for multi-token prediction",
     [](const Transformer& it) { return it.predicted_tokens > 0; }},
    {ModelFeature::attention_gate, "gated attention",
     [](const Transformer& it) { return it.attention_gate; }},
    {ModelFeature::attention_sinks, "attention sinks",
     [](const Transformer& it) { return it.attention_sinks; }},
    {ModelFeature::qkv_biases, "biases of queries, keys and values only",
     [](const Transformer& it) { return bias_pattern(it) == BiasPattern::qkv; }},
    {ModelFeature::some_biases, "biases of some matrices only",
     [](const Transformer& it) { return it.biases.head || bias_pattern(it) == BiasPattern::other; }},
    {ModelFeature::layer_norm_without_bias, "layer norms without biases",
     [](const Transformer& it) { return it.norm == Norm::layer_without_bias; }},
    {ModelFeature::norm_without_parameters, "norms without parameters",
     [](const Transformer& it) { return it.norm == Norm::none; }},
    {ModelFeature::norms_per_block, "other than two norms per block",
     [](const Transformer& it) { return it.norms != 2; }},
    {ModelFeature::qk_norm_of_all_heads, "norms of the queries and keys of all heads (qk_norm)",
     [](const Transformer& it) { return it.qk_norm == QkNorm::all_heads; }},
    {ModelFeature::embedding_width, "an embedding of another width",
     [](const Transformer& it) { return it.embedding_width > 0; }},
    {ModelFeature::embedding_norm, "a norm after the embedding",
     [](const Transformer& it) { return it.embedding_norm; }},
    {ModelFeature::no_final_norm, "no final norm", [](const Transformer& it) { return !it.final_norm; }},
});
static_assert(has_row_for_each(features, ModelFeature::no_final_norm));

}  // namespace

std::span<const ModelFeatureTraits> model_feature_table() {
  return features;
}

std::string_view name_of(ModelFeature feature) {
  return row_of(features, feature).name;
}

std::string_view unsupported_feature(const Transformer& model, std::span<const ModelFeature> supported) {
  for (const ModelFeatureTraits& row : features)
    if (row.is_in(model) && std::find(supported.begin(), supported.end(), row.kind) == supported.end())
      return row.name;
  return "";
}

BiasPattern bias_pattern(const Transformer& model) {
  std::vector<bool> others = {model.biases.output};
  if (has_block(model, Mlp::dense)) others.push_back(model.biases.mlp);
  if (has_block(model, Mlp::experts))
    others.insert(others.end(), {model.experts.biases, model.experts.router_bias});
  const auto count = std::count(others.begin(), others.end(), true);
  if (count == 0) return model.biases.qkv ? BiasPattern::qkv : BiasPattern::none;
  return model.biases.qkv && count == std::ssize(others) ? BiasPattern::all : BiasPattern::other;
}

}  // namespace dtfm
