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

/// A block per row. Where it is `kept`, the row lies in shared memory from the sum to the gradient; a thread
/// reads there only what it copied itself, so no barrier is needed.
template <class T, bool kept>
__global__ void __launch_bounds__(max_threads)
    cross_entropy_kernel(int classes, int row_stride, T* logits, const int* labels, float scale,
                         float* loss) {
  T* const row = logits + static_cast<std::int64_t>(block_index()) * row_stride;
  const int given = labels[block_index()], label = given < classes ? given : -1;
  const int step = thread_count() * pack_size<T>, first = thread_index() * pack_size<T>;
  const float target = label >= 0 ? to_float(row[label]) : 0.0F;
  const T* source = row;
  if constexpr (kept) {
    T* const shared = shared_memory<T>();
    for (int column = first; column < row_stride; column += step)
      copy_async(shared + column, row + column, true);
    commit_copies();
    wait_copies<0>();
    source = shared;
  }
  ExponentSum total{-INFINITY, 0};
#pragma unroll 4
  for (int column = first; column < row_stride; column += step)
    total = merged(total, sum_of(exponents<T>(load_raw(source + column), column, classes)));
  total = block_exponent_sum(total);  // its barrier stands between the reading of `target` and the gradient
  const float log2_total = total.maximum + log2f(total.sum);
#pragma unroll 4
  for (int column = first; column < row_stride; column += step)
    store_pack(row + column, gradient<T>(exponents<T>(load_raw(source + column), column, classes), column,
                                         label, log2_total, scale));
  if (thread_index() == 0) loss[block_index()] = log2_total * ln_2 - target;
}

}  // namespace

template <class T>
void cross_entropy(int rows, int classes, int row_stride, T* logits, const int* labels, float scale,
                   float* loss) {
  const Grid grid{static_cast<unsigned>(rows)};
  const std::size_t bytes = static_cast<std::size_t>(row_stride) * sizeof(T);
  constexpr std::size_t other_shared = 1024;  // for the sums of the block
  if (bytes + other_shared > device_limits().shared_bytes)
    launch(cross_entropy_kernel<T, false>, grid, max_threads, 0, classes, row_stride, logits, labels, scale,
           loss);
  else  // half a block's threads: two rows of a large vocabulary are then under way in a multiprocessor
    launch(cross_entropy_kernel<T, true>, grid, bytes < 8192 ? 128 : max_threads / 2, bytes, classes,
           row_stride, logits, labels, scale, loss);
}

#define DTFM_INSTANTIATE(T) template void cross_entropy<T>(int, int, int, T*, const int*, float, float*);
DTFM_INSTANTIATE(float)
DTFM_INSTANTIATE(Half)
DTFM_INSTANTIATE(Bfloat16)

}  // namespace dtfm::kernels
