// Recomputation (activation checkpointing): the backward pass repeats what the forward pass did not keep or,
// with offload, copies it back from host memory.
#pragma once

#include <span>
#include <string_view>

#include "core/model/model.hpp"

namespace dtfm {

enum class Recomputation : unsigned char {
  none,
  moe_act,    // of the activation functions of routed experts
  selective,  // of the attention core (Korthikanti et al., arXiv 2205.05198)
  mlp,        // of MLPs and experts, with their routers
  full,       // of whole layers from their inputs
  as_needed,  // of as few whole layers of each stage as its memory requires
  offload,    // of nothing: as few layers of each stage as its memory requires keep activations on the host
};

/// Bytes and FLOPs are per sequence.
struct RecomputationTraits {
  Recomputation kind;
  std::string_view name;  // in jobs
  /// Share of a layer's forward FLOPs that its backward pass repeats; the layer has forward FLOPs.
  double (*repeated_share)(const Layer& layer);
  /// What a layer keeps from its forward to its backward pass; `input` is what it receives.
  Bytes (*kept)(const Layer& layer, Bytes input);
  /// What a layer holds in addition while its backward pass runs.
  Bytes (*working)(const Layer& layer);
  // What the backward pass repeats, with its messages: cores of attention, all of attention, MLPs.
  bool repeats_attention = false, repeats_mixers = false, repeats_mlps = false;
  /// The key in plans and programs for the number of recomputed or offloaded layers of a stage
  /// (Stage::recompute_layers); null: they have none.
  const char* layers_name = nullptr;
  /// The layers are not recomputed: their activations are copied to the host and back.
  bool offloads = false;
  bool is_candidate = true;  // the planner tries it if the job says `auto`

  constexpr bool is_per_stage() const { return layers_name != nullptr; }
};

/// A row for each value, in the order of the enum.
std::span<const RecomputationTraits> recomputation_table();
const RecomputationTraits& traits(Recomputation recomputation);
std::string_view name_of(Recomputation recomputation);

}  // namespace dtfm
