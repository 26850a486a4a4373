// Sums and maxima over a warp and over a block. Every thread gets the result.
#pragma once

#include "kernels/platform/platform.cuh"

namespace dtfm::kernels {

__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int flip = warp_size / 2; flip > 0; flip /= 2) value += __shfl_xor_sync(whole_warp, value, flip);
  return value;
}

/// Sums two numbers over a block of whole warps. All threads must call it; calls may follow each other
/// directly.
__device__ inline FloatPair block_sums(FloatPair value) {
  __shared__ FloatPair parts[warp_size];
  value = {warp_sum(value.x), warp_sum(value.y)};
  const int warps = thread_count() / warp_size;
  if (warps == 1) return value;
  const int lane = thread_index() % warp_size;
  __syncthreads();  // the parts of the previous call have been read
  if (lane == 0) parts[thread_index() / warp_size] = value;
  __syncthreads();
  value = lane < warps ? parts[lane] : FloatPair{0, 0};
  return {warp_sum(value.x), warp_sum(value.y)};
}

/// The maximum of numbers x and Σ 2^(x − maximum), merged as in an online softmax.
struct ExponentSum {
  float maximum, sum;
};

__device__ inline ExponentSum merged(ExponentSum a, ExponentSum b) {
  const float maximum = fmaxf(a.maximum, b.maximum);
  if (maximum == -INFINITY) return {maximum, 0};
  return {maximum, a.sum * fast_exp2(a.maximum - maximum) + b.sum * fast_exp2(b.maximum - maximum)};
}

__device__ inline ExponentSum warp_exponent_sum(ExponentSum value) {
#pragma unroll
  for (int flip = warp_size / 2; flip > 0; flip /= 2)
    value = merged(value, {__shfl_xor_sync(whole_warp, value.maximum, flip),
                           __shfl_xor_sync(whole_warp, value.sum, flip)});
  return value;
}

__device__ inline ExponentSum block_exponent_sum(ExponentSum value) {
  __shared__ ExponentSum parts[warp_size];
  value = warp_exponent_sum(value);
  const int warps = thread_count() / warp_size;
  const int lane = thread_index() % warp_size;
  __syncthreads();
  if (lane == 0) parts[thread_index() / warp_size] = value;
  __syncthreads();
  return warp_exponent_sum(lane < warps ? parts[lane] : ExponentSum{-INFINITY, 0});
}

}  // namespace dtfm::kernels
