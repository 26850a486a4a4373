#include "core/model/transformer.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/base/kind_table.hpp"

namespace dtfm {
namespace {

constexpr auto norms = std::to_array<ModuleTraits<Norm>>({
    {Norm::layer, "layer"},
    {Norm::layer_without_bias, "layer-without-bias"},
    {Norm::rms, "rms"},
    {Norm::none, "none"},
});
static_assert(has_row_for_each(norms, Norm::none));

constexpr auto qk_norms = std::to_array<ModuleTraits<QkNorm>>({
    {QkNorm::none, "false"},
    {QkNorm::head, "true"},
    {QkNorm::all_heads, "all-heads"},
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

template <class Predicate>
bool has_block_of(const Transformer& model, const Predicate& predicate) {
  if (model.blocks.empty()) return predicate(block_kind(model, 0));
  return std::any_of(model.blocks.begin(), model.blocks.end(), predicate);
}

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

bool has_block(const Transformer& model, Mixer mixer) {
  return has_block_of(model, [&](const BlockKind& it) { return it.mixer == mixer; });
}

bool has_block(const Transformer& model, Mlp mlp) {
  return has_block_of(model, [&](const BlockKind& it) { return it.mlp == mlp; });
}

std::string name_of(const BlockKind& kind) {
  const std::string_view mixer = row_of(mixers, kind.mixer).label, mlp = row_of(mlps, kind.mlp).label;
  if (mlp.empty()) return std::string(mixer.empty() ? "attention" : mixer);
  return mixer.empty() ? std::string(mlp) : fmt::format("{}-{}", mlp, mixer);
}

}  // namespace dtfm
