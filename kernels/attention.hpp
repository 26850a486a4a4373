// Scaled dot-product attention that never materializes the sequence × sequence matrix: online softmax over
// tiles of keys (Dao, "FlashAttention-2", arXiv 2307.08691, algorithms 1 and 2). Supports grouped queries:
// query head h reads key and value head h / (heads / kv_heads).
#pragma once

#include <cstddef>

namespace dtfm::kernels {

struct AttentionShape {
  int batch = 0, sequence = 0, heads = 0, kv_heads = 0;
  int head_size = 0;  // 64 or 128
  bool causal = true;
};

/// Element i of head h at token s of sequence b of q, k or v is stored at (b·sequence + s)·row_stride +
/// h·head_size + i, so that all three can be parts of one matrix. row_stride must be a multiple of 16 /
/// sizeof(T), and arrays must be 16-byte aligned.
template <class T>
struct AttentionForward {
  AttentionShape shape;
  int row_stride = 0;
  const T* q = nullptr;
  const T* k = nullptr;
  const T* v = nullptr;
  T* out = nullptr;              // batch·sequence rows of heads·head_size
  float* log_sum_exp = nullptr;  // batch × heads × sequence, over the scaled scores
};

/// On Hopper, fp16 and bf16 use warpgroup products if their tiles fit in `shared_bytes` of shared memory; 0
/// means the device's maximum. Throws DeviceError for head sizes other than 64 and 128.
template <class T>
void attention_forward(const AttentionForward<T>& in, std::size_t shared_bytes = 0);

template <class T>
struct AttentionBackward {
  AttentionForward<T> forward;  // including the outputs of the forward pass
  const T* dout = nullptr;      // same layout as `out`
  T* dq = nullptr;              // same layout and row stride as q, k and v
  T* dk = nullptr;
  T* dv = nullptr;
  float* workspace = nullptr;  // attention_workspace(shape) floats
};

/// Number of floats that the backward pass needs for its sums.
std::size_t attention_workspace(const AttentionShape& shape);

/// Recomputes the probabilities tile by tile and sums the gradient of q atomically over tiles of keys.
/// All tiles use at most `shared_bytes`; otherwise as attention_forward. Throws DeviceError, too, if no tiles
/// fit.
template <class T>
void attention_backward(const AttentionBackward<T>& in, std::size_t shared_bytes = 0);

/// Floating-point operations of a forward pass, counting a multiply-add as two, and half of the square if
/// causal. A backward pass has 2.5 times as many: five products per tile instead of two.
double attention_flops(const AttentionShape& shape);

}  // namespace dtfm::kernels
