// The platform under nvcc. PTX instructions are named as in the PTX ISA manual.
#pragma once

#include <cstddef>
#include <string>

#include <cuda_runtime.h>

#include "kernels/platform/fragment.hpp"

namespace dtfm::kernels {

inline void check_cuda(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw DeviceError(std::string(what) + ": " + cudaGetErrorString(status));
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), Grid grid, int threads, std::size_t shared_bytes,
            Arguments... arguments) {
  if (shared_bytes > 0)  // up to 48 KB need no attribute, but the kernel's static shared memory counts too
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shared_bytes)),
               "shared memory");
  kernel<<<dim3(grid.x, grid.y, grid.z), threads, shared_bytes>>>(static_cast<Parameters>(arguments)...);
  check_cuda(cudaGetLastError(), "kernel launch");
}

template <class T>
__device__ T* shared_memory() {
  extern __shared__ __align__(1024) unsigned char dtfm_shared_memory[];
  return reinterpret_cast<T*>(dtfm_shared_memory);
}

__device__ inline float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Returns x, but hides its value from the compiler.
__device__ inline int opaque(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

__device__ inline float fast_reciprocal(float x) {
  return __fdividef(1.0F, x);
}

__device__ inline RawPack load_raw(const void* from) {
  const uint4 v = *static_cast<const uint4*>(from);
  return {{v.x, v.y, v.z, v.w}};
}

__device__ inline void store_raw(void* to, const RawPack& v) {
  *static_cast<uint4*>(to) = make_uint4(v.word[0], v.word[1], v.word[2], v.word[3]);
}

/// to[0] += x, to[1] += y, each atomically; `to` is 8-byte aligned.
__device__ inline void atomic_add_pair(float* to, float x, float y) {
#if __CUDA_ARCH__ >= 900
  // atomicAdd of a float2 would also return the previous value.
  asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)),
               "f"(x), "f"(y)
               : "memory");
#else
  atomicAdd(to, x);
  atomicAdd(to + 1, y);
#endif
}

/// to[i] += x[i], each atomically; `to` is 16-byte aligned.
__device__ inline void atomic_add_quad(float* to, const float (&x)[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
      "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
      : "memory");
#else
  for (int i = 0; i < 4; ++i) atomicAdd(to + i, x[i]);
#endif
}

using SharedAddress = std::uint32_t;
__device__ inline SharedAddress shared_address(const void* pointer) {
  return static_cast<SharedAddress>(__cvta_generic_to_shared(pointer));
}

/// Copies 16 bytes asynchronously, or writes zeros and does not read `global` if not `valid`.
__device__ inline void copy_async(void* shared, const void* global, bool valid) {
#if __CUDA_ARCH__ >= 800
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global),
               "r"(bytes)
               : "memory");
#else
  store_raw(shared, valid ? load_raw(global) : RawPack{});
#endif
}

__device__ inline void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until at most N of this thread's latest copy groups are pending.
template <int N>
__device__ void wait_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

/// Loads four 8 × 8 matrices of 16-bit numbers; lane i passes the address of row i % 8 of matrix i / 8.
__device__ inline void load_matrices(std::uint32_t (&r)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row));
}

__device__ inline void load_matrices_transposed(std::uint32_t (&r)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row));
}

template <class T>
__device__ inline FloatPair floats_of(Pair<T> pair) {
  if constexpr (sizeof(T) == 4)
    return pair;
  else
    return {to_float(T{static_cast<std::uint16_t>(pair & 0xffffu)}),
            to_float(T{static_cast<std::uint16_t>(pair >> 16)})};
}

/// Emulates tensor cores by shuffles: for float, and for bfloat16 where tensor cores do not support it
/// (before sm_80). Not inlined, because a kernel has hundreds of products, and these two formats need to be
/// correct rather than fast.
template <class Number>
__device__ __noinline__ float4 multiply_by_shuffles(float4 c, FloatPair upper, FloatPair lower,
                                                    FloatPair column) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto from = [](Number v, int source) { return __shfl_sync(0xffffffffu, v, source); };
  for (int k = 0; k < 4; ++k) {
    const int row_lane = (lane & ~3) + k, column_lane = (lane % 4) * 8 + k;
    const FloatPair u{from(upper.x, row_lane), from(upper.y, row_lane)};
    const FloatPair l{from(lower.x, row_lane), from(lower.y, row_lane)};
    const FloatPair left{from(column.x, column_lane), from(column.y, column_lane)};
    const FloatPair right{from(column.x, column_lane + 4), from(column.y, column_lane + 4)};
    c.x += u.x * left.x + u.y * left.y;
    c.y += u.x * right.x + u.y * right.y;
    c.z += l.x * left.x + l.y * left.y;
    c.w += l.x * right.x + l.y * right.y;
  }
  return c;
}

/// c += a · b, computed by a whole warp.
template <class T>
__device__ void multiply_fragments(float (&c)[4], const Pair<T> (&a)[4], const Pair<T> (&b)[2]) {
  float4 sum = make_float4(c[0], c[1], c[2], c[3]);
  for (int k = 0; k < 2; ++k)  // in steps of 8 along the inner dimension of 16
    sum = multiply_by_shuffles<float>(sum, floats_of<T>(a[2 * k]), floats_of<T>(a[2 * k + 1]),
                                      floats_of<T>(b[k]));
  c[0] = sum.x;
  c[1] = sum.y;
  c[2] = sum.z;
  c[3] = sum.w;
}

#if __CUDA_ARCH__ >= 800
#define DTFM_MMA_M16N8K16(format)                                                     \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." format "." format             \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                       \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
template <>
__device__ inline void multiply_fragments<Half>(float (&c)[4], const std::uint32_t (&a)[4],
                                                const std::uint32_t (&b)[2]) {
  DTFM_MMA_M16N8K16("f16");
}
template <>
__device__ inline void multiply_fragments<Bfloat16>(float (&c)[4], const std::uint32_t (&a)[4],
                                                    const std::uint32_t (&b)[2]) {
  DTFM_MMA_M16N8K16("bf16");
}
#undef DTFM_MMA_M16N8K16
#elif defined(__CUDA_ARCH__)
template <>
__device__ inline void multiply_fragments<Half>(float (&c)[4], const std::uint32_t (&a)[4],
                                                const std::uint32_t (&b)[2]) {
  for (int k = 0; k < 2;
       ++k)  // sm_75 has an instruction for half of it: same registers, 8 of the 16 at a time
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[2 * k]), "r"(a[2 * k + 1]), "r"(b[k]));
}
#endif

}  // namespace dtfm::kernels
