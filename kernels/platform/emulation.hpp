// The platform without a GPU. The threads of a block are fibers that take turns and switch only where CUDA
// threads would wait for one another. Numbers are rounded as on a GPU; sums are in a different order than on
// tensor cores. Programming errors become visible: shared memory initially holds NaN, asynchronous copies and
// warpgroup products complete only when they are waited for, the addresses of 16-byte accesses are checked, a
// barrier that not all threads reach is an error, and so, under AddressSanitizer, is an access outside of a
// buffer.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#include "kernels/platform/device.hpp"
#include "kernels/platform/fragment.hpp"
#include "kernels/platform/types.hpp"

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

namespace dtfm::kernels {

struct Index3 {
  unsigned x = 0, y = 0, z = 0;
};
inline Index3 threadIdx, blockIdx, blockDim, gridDim;  // of the running fiber

namespace emulation {

/// What a GPU leaves unspecified: the order in which warps and their threads run, and when asynchronous
/// copies and products complete. A kernel whose barriers are correct gives the same bits in both extremes.
enum class Schedule {
  late,   // first threads first; copies and products complete when they are waited for
  early,  // last threads first; copies and products complete immediately
};
void set_schedule(Schedule schedule);
/// Makes device_allocate throw when more than `bytes` would be allocated.
void set_memory_limit(std::size_t bytes);
std::size_t memory_held();

void run_grid(Grid grid, unsigned threads, std::size_t shared_bytes, const std::function<void()>& kernel);
void* shared_bytes();
void block_barrier();
[[noreturn]] void fail(const char* what);  // aborts the kernel; its launch throws DeviceError

constexpr std::size_t lane_bytes = 64;
/// Returns the values of all lanes of the warp, at most lane_bytes each. The result is valid until the lane's
/// second next call.
const std::byte* exchange_lanes(const void* own_value, std::size_t bytes);

template <class T>
T read_lane(const std::byte* warp, int lane) {
  T value;
  std::memcpy(&value, warp + static_cast<std::size_t>(lane) * lane_bytes, sizeof value);
  return value;
}

void enqueue_copy(void* to, const void* from);
void commit_copies();
void wait_copies(int groups);

/// Computes a warpgroup's product immediately or when the thread waits for it, depending on the schedule.
void start_product(std::function<void()> product);
void commit_products();
void wait_products(int groups);

}  // namespace emulation

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), Grid grid, int threads, std::size_t shared_bytes,
            Arguments... arguments) {
  emulation::run_grid(grid, static_cast<unsigned>(threads), shared_bytes,
                      [&] { kernel(static_cast<Parameters>(arguments)...); });
}

template <class T>
T* shared_memory() {
  return static_cast<T*>(emulation::shared_bytes());
}

inline void __syncthreads() {
  emulation::block_barrier();
}
inline void __syncwarp() {
  emulation::exchange_lanes(nullptr, 0);
}

inline int lane_of_thread() {
  return static_cast<int>(threadIdx.x % 32);
}

template <class T>
T __shfl_sync(unsigned, T value, int source) {
  return emulation::read_lane<T>(emulation::exchange_lanes(&value, sizeof value), source & 31);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int flip) {
  return __shfl_sync(mask, value, lane_of_thread() ^ flip);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, int distance) {
  const int lane = lane_of_thread();
  return __shfl_sync(mask, value, lane + distance < 32 ? lane + distance : lane);
}

inline float atomicAdd(float* to, float value) {
  const float before = *to;
  *to = before + value;
  return before;
}

inline void atomic_add_pair(float* to, float x, float y) {
  if (reinterpret_cast<std::uintptr_t>(to) % 8 != 0)
    emulation::fail("atomic_add_pair: address is not 8-byte aligned");
  to[0] += x;
  to[1] += y;
}

inline void atomic_add_quad(float* to, const float (&x)[4]) {
  if (reinterpret_cast<std::uintptr_t>(to) % 16 != 0)
    emulation::fail("atomic_add_quad: address is not 16-byte aligned");
  for (int i = 0; i < 4; ++i) to[i] += x[i];
}

inline float fast_exp2(float x) {
  return std::exp2(x);
}
inline int opaque(int x) {
  return x;
}
inline float fast_reciprocal(float x) {
  return 1.0F / x;
}
inline float rsqrtf(float x) {
  return 1.0F / std::sqrt(x);
}

inline void check_16_bytes(const void* address) {
  if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0)
    emulation::fail("16-byte access: address is not 16-byte aligned");
}

inline RawPack load_raw(const void* from) {
  check_16_bytes(from);
  RawPack value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

inline void store_raw(void* to, const RawPack& value) {
  check_16_bytes(to);
  std::memcpy(to, &value, sizeof value);
}

inline void copy_async(void* shared, const void* global, bool valid) {
  check_16_bytes(shared);
  if (valid) check_16_bytes(global);
  emulation::enqueue_copy(shared, valid ? global : nullptr);
}

inline void commit_copies() {
  emulation::commit_copies();
}

template <int N>
void wait_copies() {
  emulation::wait_copies(N);
}

using SharedAddress = std::uintptr_t;
inline SharedAddress shared_address(const void* pointer) {
  return reinterpret_cast<SharedAddress>(pointer);
}

inline void load_matrices(std::uint32_t (&r)[4], SharedAddress address) {
  const void* const row = reinterpret_cast<const void*>(address);
  check_16_bytes(row);
  const std::byte* warp = emulation::exchange_lanes(&row, sizeof row);
  const int lane = lane_of_thread();
  for (int m = 0; m < 4; ++m)
    std::memcpy(&r[m], emulation::read_lane<const std::byte*>(warp, 8 * m + lane / 4) + 4 * (lane % 4), 4);
}

inline void load_matrices_transposed(std::uint32_t (&r)[4], SharedAddress address) {
  const void* const row = reinterpret_cast<const void*>(address);
  check_16_bytes(row);
  const std::byte* warp = emulation::exchange_lanes(&row, sizeof row);
  const int lane = lane_of_thread();
  for (int m = 0; m < 4; ++m) {
    std::uint16_t pair[2];
    for (int i = 0; i < 2; ++i)
      std::memcpy(&pair[i],
                  emulation::read_lane<const std::byte*>(warp, 8 * m + 2 * (lane % 4) + i) + 2 * (lane / 4),
                  2);
    r[m] = pair[0] | static_cast<std::uint32_t>(pair[1]) << 16;
  }
}

template <class T>
FloatPair floats_of(Pair<T> pair) {
  if constexpr (sizeof(T) == 4)
    return pair;
  else
    return {to_float(T{static_cast<std::uint16_t>(pair & 0xffffu)}),
            to_float(T{static_cast<std::uint16_t>(pair >> 16)})};
}

template <class T>
void multiply_fragments(float (&c)[4], const Pair<T> (&a)[4], const Pair<T> (&b)[2]) {
  struct Operands {
    FloatPair a[4], b[2];
  } own_value;
  for (int i = 0; i < 4; ++i) own_value.a[i] = floats_of<T>(a[i]);
  for (int i = 0; i < 2; ++i) own_value.b[i] = floats_of<T>(b[i]);
  const std::byte* warp = emulation::exchange_lanes(&own_value, sizeof own_value);
  const int lane = lane_of_thread();
  for (int k = 0; k < 4; ++k) {
    const auto row = emulation::read_lane<Operands>(warp, (lane & ~3) + k);
    const auto left = emulation::read_lane<Operands>(warp, (lane % 4) * 8 + k);
    const auto right = emulation::read_lane<Operands>(warp, (lane % 4) * 8 + 4 + k);
    for (int half = 0; half < 2; ++half) {
      const FloatPair upper = row.a[2 * half], lower = row.a[2 * half + 1];
      c[0] += upper.x * left.b[half].x + upper.y * left.b[half].y;
      c[1] += upper.x * right.b[half].x + upper.y * right.b[half].y;
      c[2] += lower.x * left.b[half].x + lower.y * left.b[half].y;
      c[3] += lower.x * right.b[half].x + lower.y * right.b[half].y;
    }
  }
}

}  // namespace dtfm::kernels
