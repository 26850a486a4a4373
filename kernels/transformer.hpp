// Shape of the transformer layers that are timed, as one rank of a tensor-parallel group computes them.
#pragma once

#include <cstdint>

#include "kernels/platform/types.hpp"

namespace dtfm::kernels {

struct TransformerShape {
  int batch = 1;  // sequences per micro-batch
  int sequence = 0, hidden = 0, heads = 0, kv_heads = 0, ffn = 0, vocabulary = 0;
  bool gated = false;   // SiLU(gate) · up instead of GELU
  bool rms = false;     // RMS norm and no biases, instead of layer norm and biases
  bool rotary = false;  // rotary embedding instead of a position table
  bool causal = true;
  int tensor_parallel = 1;  // divides heads, ffn and vocabulary
  DType dtype = DType::f16;
  int head_size = 0;  // of each head; 0: hidden ÷ heads
};

/// Respectively: token and position embedding; one block (pre-norm attention and MLP); final norm, output
/// projection and loss.
enum class LayerKind { embedding, block, head };

/// Throws DeviceError if the shape is invalid: a number that is not positive, head size other than 64 or 128,
/// a division with a remainder, or more than the kernels support (hidden size 16,384, or 8,192 in fp32;
/// 65,535 sequences; 2²² tokens).
void check_shape(const TransformerShape& shape);

/// Matrix dimensions on one rank.
struct RankWidths {
  int rows = 0;  // tokens per micro-batch
  int head_size = 0, heads = 0, kv_heads = 0;
  int q = 0, kv = 0, qkv = 0;  // columns of queries, of keys, and of queries, keys and values together
  // input width of the second MLP matrix; output width of the first, including the gate
  int ffn = 0, up = 0;
  int vocabulary = 0, padded_vocabulary = 0;  // padded to a multiple of 128, as Megatron-LM does by default
};

RankWidths rank_widths(const TransformerShape& shape);

std::int64_t layer_parameters(const TransformerShape& shape, LayerKind kind);

/// Floating-point operations of the matrix products of a forward pass, counting a multiply-add as two, and
/// attention as in attention_flops. A backward pass without recomputation has twice as many (for attention,
/// 2.5 times).
double forward_flops(const TransformerShape& shape, LayerKind kind);
double backward_flops(const TransformerShape& shape, LayerKind kind);

}  // namespace dtfm::kernels
