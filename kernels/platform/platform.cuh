// One kernel source for two targets. nvcc compiles it for GPUs; any C++ compiler compiles it for the
// emulation, which runs blocks one after another and the threads of a block as fibers, so that kernels can be
// tested without a GPU.
//
// Both offer CUDA's own names (threadIdx, __shared__, __syncthreads, __shfl_xor_sync, atomicAdd) and:
//   launch(kernel, grid, threads, shared_bytes, arguments…)   throws DeviceError if the launch fails
//   shared_memory<T>()                                        the block's dynamic shared memory,
//                                                             1,024-byte aligned
//   shared_address(pointer)                                   an address in it, for load_matrices
//   copy_async, commit_copies, wait_copies<N>                 cp.async: 16 bytes from global to shared
//   load_matrices, load_matrices_transposed                   ldmatrix .x4, .trans
//   multiply_fragments                                        mma.sync m16n8k16, or an equivalent for float
//   fast_exp2, fast_reciprocal                                one instruction each on a GPU
//   opaque(x)                                                 x, with its value hidden from the compiler
#pragma once

#include "kernels/platform/device.hpp"
#include "kernels/platform/types.hpp"

#ifdef __CUDACC__
#include "kernels/platform/gpu.cuh"
#else
#include "kernels/platform/emulation.hpp"
#endif

namespace dtfm::kernels {

__device__ inline int thread_index() {
  return static_cast<int>(threadIdx.x);
}
__device__ inline int thread_count() {
  return static_cast<int>(blockDim.x);
}
/// Index of this thread in the launch. It has 32 bits because 64-bit divisions would take longer than the
/// memory accesses whose addresses they compute.
__device__ inline unsigned launch_thread() {
  return blockIdx.x * blockDim.x + threadIdx.x;
}
__device__ inline int block_index() {
  return static_cast<int>(blockIdx.x);
}
__device__ inline int block_count() {
  return static_cast<int>(gridDim.x);
}

inline constexpr int warp_size = 32;
inline constexpr unsigned whole_warp = 0xffffffffu;

/// ⌈a / b⌉ for a ≥ 0, b > 0.
template <class I>
DTFM_HOST_DEVICE constexpr I ceil_div(I a, I b) {
  return (a + b - 1) / b;
}

}  // namespace dtfm::kernels
