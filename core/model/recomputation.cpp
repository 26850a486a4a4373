#include "core/model/recomputation.hpp"

#include "core/base/kind_table.hpp"

namespace dtfm {
namespace {

constexpr RecomputationTraits full = {
    .kind = Recomputation::full,
    .name = "full",
    .repeated_share = [](const Layer& layer) { return 1 - layer.head / layer.forward; },
    .kept = [](const Layer&, Bytes input) { return input; },
    .working = [](const Layer& layer) { return layer.activation_memory; },
    .repeats_attention = true,
    .repeats_mixers = true,
    .repeats_mlps = true};

constexpr RecomputationTraits as_needed(RecomputationTraits row) {
  row.kind = Recomputation::as_needed;
  row.name = "as-needed";
  row.layers_name = "recompute_layers";
  return row;
}

constexpr auto recomputations = std::to_array<RecomputationTraits>({
    {.kind = Recomputation::none,
     .name = "none",
     .repeated_share = [](const Layer&) { return 0.0; },
     .kept = [](const Layer& layer, Bytes) { return layer.activation_memory; },
     .working = [](const Layer&) { return Bytes(); }},
    {.kind = Recomputation::moe_act,
     .name = "moe_act",
     .repeated_share = [](const Layer&) { return 0.0; },  // operations outside of matrix products
     .kept = [](const Layer& layer, Bytes) { return layer.activation_memory - layer.expert_outputs_memory; },
     .working = [](const Layer& layer) { return layer.expert_outputs_memory; }},
    {.kind = Recomputation::selective,
     .name = "selective",
     .repeated_share = [](const Layer& layer) { return layer.attention / layer.forward; },
     .kept = [](const Layer& layer, Bytes) { return layer.activation_memory - layer.attention_memory; },
     .working = [](const Layer& layer) { return layer.attention_memory; },
     .repeats_attention = true},
    {.kind = Recomputation::mlp,
     .name = "mlp",
     .repeated_share = [](const Layer& layer) { return layer.mlps / layer.forward; },
     .kept = [](const Layer& layer, Bytes) { return layer.activation_memory - layer.mlp_memory; },
     .working = [](const Layer& layer) { return layer.mlp_memory; },
     .repeats_mlps = true},
    full,
    as_needed(full),
    {.kind = Recomputation::offload,
     .name = "offload",
     .repeated_share = [](const Layer&) { return 0.0; },
     .kept = [](const Layer&, Bytes input) { return input; },
     .working = [](const Layer& layer) { return layer.activation_memory; },
     .layers_name = "offload_layers",
     .offloads = true,
     .is_candidate = false},  // only target pytorch offloads whole layers, which was not measured
});
static_assert(has_row_for_each(recomputations, Recomputation::offload));

}  // namespace

std::span<const RecomputationTraits> recomputation_table() {
  return recomputations;
}

const RecomputationTraits& traits(Recomputation recomputation) {
  return row_of(recomputations, recomputation);
}

std::string_view name_of(Recomputation recomputation) {
  return traits(recomputation).name;
}

}  // namespace dtfm
