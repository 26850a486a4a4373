// Attention by the matrix products of warpgroups (platform/warpgroup.cuh), for 16-bit numbers.
#pragma once

#include "kernels/attention.hpp"

namespace dtfm::kernels {

/// Launches the kernel and returns true, or returns false if the device or this build has no such products,
/// if T is float, if the head size is not supported, or if the tiles need more than `shared_bytes`.
template <class T>
bool attention_forward_by_warpgroups(const AttentionForward<T>& in, std::size_t shared_bytes);

inline constexpr int query_tile = 64;  // queries of a tile in the backward pass

/// Inputs and outputs of the backward pass, and the buffers that its kernels share.
template <class T>
struct BackwardArguments {
  AttentionBackward<T> in;
  float* dq_sum;  // sums before rounding, initially zero; each kernel has its own layout
  float* delta;   // batch × heads × sequence: Σ dout · out
  float scale;
};

/// Computes dq, dk and dv. Returns false in the same cases.
template <class T>
bool attention_backward_by_warpgroups(const BackwardArguments<T>& arguments, std::size_t shared_bytes);

}  // namespace dtfm::kernels
