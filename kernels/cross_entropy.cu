#include "kernels/cross_entropy.hpp"

#include "kernels/platform/pack.cuh"
#include "kernels/platform/reduce.cuh"

namespace dtfm::kernels {
namespace {

constexpr int max_threads = 1024;
constexpr float log2_e = 1.44269504F;
constexpr float ln_2 = 0.693147181F;

/// Scaled by log₂ e; −∞ past the last class.
template <class T>
__device__ inline Floats<T> exponents(const RawPack& raw, int column, int classes) {
  Floats<T> x = unpack<T>(raw);
#pragma unroll
  for (int i = 0; i < pack_size<T>; ++i) x.v[i] = column + i < classes ? x.v[i] * log2_e : -INFINITY;
  return x;
}

/// One maximum a pack, so that a running sum is rescaled once a pack and not once a number.
template <class T>
__device__ inline ExponentSum sum_of(const Floats<T>& x) {
  ExponentSum part{x.v[0], 0};
#pragma unroll
  for (int i = 1; i < pack_size<T>; ++i) part.maximum = fmaxf(part.maximum, x.v[i]);
  if (part.maximum == -INFINITY) return part;
#pragma unroll
  for (int i = 0; i < pack_size<T>; ++i) part.sum += fast_exp2(x.v[i] - part.maximum);
  return part;
}

template <class T>
__device__ inline Floats<T> gradient(Floats<T> x, int column, int label, float log2_total, float scale) {
#pragma unroll
  for (int i = 0; i < pack_size<T>; ++i)
    x.v[i] = (fast_exp2(x.v[i] - log2_total) - (column + i == label ? 1.0F : 0.0F)) * scale;
  return x;
}

/// A block per row; `packs` packs of a thread stay in registers, 0: none do.
template <class T, int packs>
__global__ void __launch_bounds__(max_threads)
    cross_entropy_kernel(int classes, int row_stride, T* logits, const int* labels, float scale,
                         float* loss) {
  constexpr int n = pack_size<T>;
  constexpr int kept = packs == 0 ? 1 : packs;
  T* const row = logits + static_cast<std::int64_t>(block_index()) * row_stride;
  const int given = labels[block_index()], label = given < classes ? given : -1, step = thread_count() * n,
            first = thread_index() * n;
  const float target = label >= 0 ? to_float(row[label]) : 0.0F;
  RawPack held[kept];
  ExponentSum total{-INFINITY, 0};
  if constexpr (packs == 0) {
#pragma unroll 4
    for (int column = first; column < row_stride; column += step)
      total = merged(total, sum_of(exponents<T>(load_raw(row + column), column, classes)));
  } else {
#pragma unroll
    for (int p = 0; p < packs; ++p)
      if (first + p * step < row_stride) held[p] = load_raw(row + first + p * step);
#pragma unroll
    for (int p = 0; p < packs; ++p)
      if (first + p * step < row_stride)
        total = merged(total, sum_of(exponents<T>(held[p], first + p * step, classes)));
  }
  total = block_exponent_sum(total);  // its barrier stands between the reading of `target` and the gradient
  const float log2_total = total.maximum + log2f(total.sum);
  if constexpr (packs == 0) {
#pragma unroll 4
    for (int column = first; column < row_stride; column += step)
      store_pack(row + column, gradient<T>(exponents<T>(load_raw(row + column), column, classes), column,
                                           label, log2_total, scale));
  } else {
#pragma unroll
    for (int p = 0; p < packs; ++p) {
      const int column = first + p * step;
      if (column < row_stride)
        store_pack(row + column,
                   gradient<T>(exponents<T>(held[p], column, classes), column, label, log2_total, scale));
    }
  }
  if (thread_index() == 0) loss[block_index()] = log2_total * ln_2 - target;
}

}  // namespace

template <class T>
void cross_entropy(int rows, int classes, int row_stride, T* logits, const int* labels, float scale,
                   float* loss) {
  const auto run = [&](auto packs, int threads) {
    launch(cross_entropy_kernel<T, packs.value>, {static_cast<unsigned>(rows)}, threads, 0, classes,
           row_stride, logits, labels, scale, loss);
  };
  const int packs = row_stride / pack_size<T>;
  if (packs <= 256) return run(std::integral_constant<int, 2>{}, 128);
  if (packs <= 2048) return run(std::integral_constant<int, 4>{}, 512);
  if (packs <= 8 * max_threads) return run(std::integral_constant<int, 8>{}, max_threads);
  run(std::integral_constant<int, 0>{}, max_threads);
}

#define DTFM_INSTANTIATE(T) template void cross_entropy<T>(int, int, int, T*, const int*, float, float*);
DTFM_INSTANTIATE(float)
DTFM_INSTANTIATE(Half)
DTFM_INSTANTIATE(Bfloat16)

}  // namespace dtfm::kernels
