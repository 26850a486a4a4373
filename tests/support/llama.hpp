// A model that every target trains.
#pragma once

#include "core/model/model.hpp"

namespace dtfm {

/// Llama of any depth; its head is not tied.
inline Transformer llama_of(int layers) {
  return {.layers = layers,
          .hidden = 1024,
          .heads = 16,
          .sequence = 512,
          .vocabulary = 32000,
          .kv_heads = 8,
          .feed_forward = 2816,
          .gated = true,
          .biases = no_biases,
          .norm = Norm::rms,
          .learned_positions = false,
          .tied = false,
          .flash_attention = true};
}

}  // namespace dtfm
