// Recomputation (activation checkpointing): the backward pass repeats what the forward pass did not keep.
#pragma once

#include <span>
#include <string_view>

#include "core/model/model.hpp"

namespace dtfm {

enum class Recomputation : unsigned char {
  none,
  selective,  // of the attention core (Korthikanti et al., arXiv 2205.05198)
  full,       // of whole layers from their inputs
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
  bool repeats_all_reduces;  // the tensor-parallel ones of the forward pass, in the backward pass
};

/// A row for each value, in the order of the enum.
std::span<const RecomputationTraits> recomputation_table();
const RecomputationTraits& traits(Recomputation recomputation);
std::string_view name_of(Recomputation recomputation);

}  // namespace dtfm
