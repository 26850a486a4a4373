// What is timed: the layers of a transformer, as one rank of a tensor-parallel group computes them.
#pragma once

#include <cstdint>

#include "kernels/platform/types.hpp"

namespace dtfm::kernels {

struct TransformerShape {
  int batch = 1;  // sequences of a micro-batch
  int sequence = 0, hidden = 0, heads = 0, kv_heads = 0, ffn = 0, vocabulary = 0;
  bool gated = false;   // SiLU(gate) · up in place of GELU
  bool rms = false;     // RMS norm and no biases, in place of layer norm and biases
  bool rotary = false;  // positions by rotation, in place of a table
  bool causal = true;
  int tensor_parallel = 1;  // heads, ffn and vocabulary are divided by it
  DType dtype = DType::f16;
};

/// Token and position embedding · one block (pre-norm attention and MLP) · final norm, output projection and
/// loss.
enum class LayerKind { embedding, block, head };

/// Throws DeviceError with what is wrong: a number that is not positive, heads not of 64 or 128, a division
/// that leaves a remainder, or more than the kernels are made for: a hidden size of 16,384 (fp32: 8,192),
/// 65,535 sequences, 2²² tokens.
void check_shape(const TransformerShape& shape);

/// The widths that a rank computes with.
struct RankWidths {
  int rows = 0;  // tokens of a micro-batch
  int head_size = 0, heads = 0, kv_heads = 0;
  int q = 0, kv = 0, qkv = 0;  // columns of the queries, of the keys, of queries, keys and values together
  int ffn = 0, up = 0;         // inputs of the second matrix of the MLP; outputs of the first, with the gate
  int vocabulary = 0, padded_vocabulary = 0;  // padded to a multiple of 128, as Megatron-LM does by default
};

RankWidths rank_widths(const TransformerShape& shape);

std::int64_t layer_parameters(const TransformerShape& shape, LayerKind kind);

/// Floating-point operations of the matrix products of a forward pass, two for each multiply-add, attention
/// as in attention_flops. A backward pass without recomputation has twice as many, and half as many again for
/// attention.
double forward_flops(const TransformerShape& shape, LayerKind kind);
double backward_flops(const TransformerShape& shape, LayerKind kind);

}  // namespace dtfm::kernels
