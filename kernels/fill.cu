#include "kernels/fill.hpp"

#include "kernels/platform/pack.cuh"

namespace dtfm::kernels {
namespace {

constexpr int threads = 256;

/// Returns output `index` of splitmix64 (Steele, Lea, Flood 2014) for this seed.
__device__ inline std::uint64_t random_bits(std::uint64_t seed, std::int64_t index) {
  std::uint64_t z = seed + (static_cast<std::uint64_t>(index) + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

template <class T>
__global__ void fill_kernel(T* to, std::int64_t size, std::uint64_t seed, float mean, float half_width) {
  const std::int64_t i = static_cast<std::int64_t>(block_index()) * threads + thread_index();
  if (i >= size) return;
  const float unit = static_cast<float>(random_bits(seed, i) >> 40) * 0x1p-23F - 1.0F;  // 24 bits: −1 … 1
  to[i] = from_float<T>(mean + half_width * unit);
}

__global__ void fill_integers_kernel(int* to, std::int64_t size, std::uint64_t seed, int below) {
  const std::int64_t i = static_cast<std::int64_t>(block_index()) * threads + thread_index();
  if (i < size) to[i] = static_cast<int>((random_bits(seed, i) >> 32) % static_cast<std::uint64_t>(below));
}

Grid blocks_for(std::int64_t size) {
  return {static_cast<unsigned>(ceil_div<std::int64_t>(size, threads))};
}

}  // namespace

template <class T>
void fill_random(T* to, std::int64_t size, std::uint64_t seed, float mean, float deviation) {
  // √3: half the width of a uniform distribution with standard deviation 1
  constexpr float width = 1.73205081F;
  if (size > 0) launch(fill_kernel<T>, blocks_for(size), threads, 0, to, size, seed, mean, deviation * width);
}

void fill_random_integers(int* to, std::int64_t size, std::uint64_t seed, int below) {
  if (size > 0) launch(fill_integers_kernel, blocks_for(size), threads, 0, to, size, seed, below);
}

template void fill_random<float>(float*, std::int64_t, std::uint64_t, float, float);
template void fill_random<Half>(Half*, std::int64_t, std::uint64_t, float, float);
template void fill_random<Bfloat16>(Bfloat16*, std::int64_t, std::uint64_t, float, float);

}  // namespace dtfm::kernels
