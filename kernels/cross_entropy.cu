#include "kernels/cross_entropy.hpp"

#include <algorithm>

#include "kernels/platform/pack.cuh"
#include "kernels/platform/reduce.cuh"

namespace dtfm::kernels {
namespace {

constexpr int max_threads = 1024;
constexpr float log2_e = 1.44269504F;
constexpr float ln_2 = 0.693147181F;

/// The logits of a pack, scaled by log₂ e, and −∞ past the last class.
template <class T>
__device__ inline Floats<T> exponents(const RawPack& raw, int column, int classes) {
  Floats<T> x = unpack<T>(raw);
#pragma unroll
  for (int i = 0; i < pack_size<T>; ++i) x.v[i] = column + i < classes ? x.v[i] * log2_e : -INFINITY;
  return x;
}

/// Uses one maximum per pack, so that a running sum is rescaled once per pack instead of once per number.
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

/// One block per row. The first `kept` numbers of the row stay in shared memory between the sum and the
/// gradient; the rest of a longer row is read again. A thread reads only those numbers in shared memory that
/// it copied itself, so no barrier is needed.
template <class T>
__global__ void __launch_bounds__(max_threads)
    cross_entropy_kernel(int classes, int row_stride, int kept, T* logits, const int* labels, float scale,
                         float* loss) {
  T* const row = logits + static_cast<std::int64_t>(block_index()) * row_stride;
  T* const shared = shared_memory<T>();
  const int given = labels[block_index()], label = given < classes ? given : -1;
  const int step = thread_count() * pack_size<T>, first = thread_index() * pack_size<T>;
  const float target = label >= 0 ? to_float(row[label]) : 0.0F;
  for (int column = first; column < kept; column += step) copy_async(shared + column, row + column, true);
  commit_copies();
  ExponentSum total{-INFINITY, 0};
  const auto add = [&](const T* source, int begin, int end) {
#pragma unroll 4
    for (int column = begin + first; column < end; column += step)
      total = merged(total, sum_of(exponents<T>(load_raw(source + column), column, classes)));
  };
  add(row, kept, row_stride);  // overlaps with the copies
  wait_copies<0>();
  add(shared, 0, kept);
  // contains the barrier between reading `target` and writing the gradient
  total = block_exponent_sum(total);
  const float log2_total = total.maximum + log2f(total.sum);
  const auto write = [&](const T* source, int begin, int end) {
#pragma unroll 4
    for (int column = begin + first; column < end; column += step)
      store_pack(row + column, gradient<T>(exponents<T>(load_raw(source + column), column, classes), column,
                                           label, log2_total, scale));
  };
  write(row, kept, row_stride);
  write(shared, 0, kept);
  if (thread_index() == 0) loss[block_index()] = log2_total * ln_2 - target;
}

}  // namespace

template <class T>
void cross_entropy(int rows, int classes, int row_stride, T* logits, const int* labels, float scale,
                   float* loss) {
  constexpr std::size_t other_shared = 1024;  // for block-wide sums
  const std::size_t room = device_limits().shared_bytes - other_shared;
  const int kept = std::min(row_stride, static_cast<int>(room / 16) * pack_size<T>);
  const std::size_t bytes = static_cast<std::size_t>(kept) * sizeof(T);
  int threads = max_threads;
  if (kept == row_stride) threads /= 2;  // a multiprocessor can then process two rows at once if they fit
  if (bytes < 8192) threads = 128;
  launch(cross_entropy_kernel<T>, {static_cast<unsigned>(rows)}, threads, bytes, classes, row_stride, kept,
         logits, labels, scale, loss);
}

#define DTFM_INSTANTIATE(T) template void cross_entropy<T>(int, int, int, T*, const int*, float, float*);
DTFM_INSTANTIATE(float)
DTFM_INSTANTIATE(Half)
DTFM_INSTANTIATE(Bfloat16)

}  // namespace dtfm::kernels
