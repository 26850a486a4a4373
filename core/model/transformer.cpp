#include "core/model/transformer.hpp"

#include <array>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/base/kind_table.hpp"

namespace dtfm {
namespace {

constexpr auto norms = std::to_array<ModuleTraits<Norm>>({
    {Norm::layer, "layer", "layer norms"},
    {Norm::layer_without_bias, "layer-without-bias", "layer norms without biases"},
    {Norm::rms, "rms", "RMS norms"},
    {Norm::none, "none", "norms without parameters"},
});
static_assert(has_row_for_each(norms, Norm::none));

constexpr auto qk_norms = std::to_array<ModuleTraits<QkNorm>>({
    {QkNorm::none, "false", ""},
    {QkNorm::head, "true", "norms of queries and keys (qk_norm)"},
    {QkNorm::all_heads, "all-heads", "norms of the queries and keys of all heads (qk_norm)"},
});
static_assert(has_row_for_each(qk_norms, QkNorm::all_heads));

constexpr auto mixers = std::to_array<ModuleTraits<Mixer>>({
    {Mixer::none, "none", ""},
    {Mixer::attention, "attention", ""},
    {Mixer::window_attention, "window-attention", "window"},
    {Mixer::mamba_2, "mamba-2", "mamba"},
    {Mixer::delta_net, "delta-net", "delta-net"},
});
static_assert(has_row_for_each(mixers, Mixer::delta_net));

constexpr auto mlps = std::to_array<ModuleTraits<Mlp>>({
    {Mlp::none, "none", ""},
    {Mlp::dense, "dense", "dense"},
    {Mlp::experts, "experts", "moe"},
});
static_assert(has_row_for_each(mlps, Mlp::experts));

}  // namespace

std::span<const ModuleTraits<Norm>> norm_table() {
  return norms;
}

std::span<const ModuleTraits<QkNorm>> qk_norm_table() {
  return qk_norms;
}

std::span<const ModuleTraits<Mixer>> mixer_table() {
  return mixers;
}

std::span<const ModuleTraits<Mlp>> mlp_table() {
  return mlps;
}

std::string_view name_of(Norm norm) {
  return row_of(norms, norm).name;
}

std::string_view name_of(QkNorm norm) {
  return row_of(qk_norms, norm).name;
}

std::string_view name_of(Mixer mixer) {
  return row_of(mixers, mixer).name;
}

std::string_view name_of(Mlp mlp) {
  return row_of(mlps, mlp).name;
}

BlockKind block_kind(const Transformer& model, int layer) {
  if (!model.blocks.empty()) return model.blocks[at(layer)];
  return {model.window > 0 ? Mixer::window_attention : Mixer::attention,
          model.experts.count > 0 ? Mlp::experts : Mlp::dense};
}

std::string name_of(const BlockKind& kind) {
  const std::string_view mixer = row_of(mixers, kind.mixer).label, mlp = row_of(mlps, kind.mlp).label;
  if (mlp.empty()) return std::string(mixer.empty() ? "attention" : mixer);
  return mixer.empty() ? std::string(mlp) : fmt::format("{}-{}", mlp, mixer);
}

std::string beyond_plain_blocks(const Transformer& model) {
  const Biases& biases = model.biases;
  if (model.latent.kv_rank > 0) return "latent attention";
  if (model.experts.count > 0) return "experts";
  if (model.mamba.heads > 0) return "Mamba-2 blocks";
  if (model.delta_net.key_heads > 0) return "gated delta nets";
  if (!model.blocks.empty()) return "blocks of several kinds";
  if (model.window > 0) return "a window of attention";
  if (model.predicted_tokens > 0) return "modules for multi-token prediction";
  if (model.attention_gate) return "gated attention";
  if (model.attention_sinks) return "attention sinks";
  if (biases.qkv != biases.mlp || biases.output != biases.mlp || biases.head)
    return "biases of some matrices only";
  if (model.norm == Norm::layer_without_bias || model.norm == Norm::none)
    return std::string(row_of(norms, model.norm).label);
  if (model.norms != 2) return fmt::format("{} norms per block", model.norms);
  if (model.qk_norm == QkNorm::all_heads) return std::string(row_of(qk_norms, model.qk_norm).label);
  if (model.embedding_width > 0) return "an embedding of another width";
  if (model.embedding_norm) return "a norm after the embedding";
  if (!model.final_norm) return "no final norm";
  return "";
}

}  // namespace dtfm
