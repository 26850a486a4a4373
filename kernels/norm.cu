#include "kernels/norm.hpp"

#include <algorithm>

#include "kernels/column_sum.hpp"
#include "kernels/platform/pack.cuh"
#include "kernels/platform/reduce.cuh"

namespace dtfm::kernels {
namespace {

constexpr int max_threads = 512, max_packs = 4;
static_assert(max_threads * max_packs * 16 == max_norm_bytes);

/// A block holds one row in registers, `packs` packs per thread.
template <class T, int packs>
__global__ void __launch_bounds__(max_threads) forward(NormForward<T> in) {
  constexpr int n = pack_size<T>;
  const std::int64_t row = static_cast<std::int64_t>(block_index()) * in.columns;
  // The sums below are of x − shift. The shift is near the mean, so that their difference does not cancel.
  const float shift = in.rms ? 0.0F : to_float(in.x[row]);
  RawPack raw[packs], residual[packs];
#pragma unroll
  for (int p = 0; p < packs; ++p) {  // all loads are in flight before the first is awaited
    const int column = (p * thread_count() + thread_index()) * n;
    const bool inside = column < in.columns;
    raw[p] = inside ? load_raw(in.x + row + column) : RawPack{};
    residual[p] = inside && in.residual != nullptr ? load_raw(in.residual + row + column) : RawPack{};
  }
  Floats<T> x[packs];
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    x[p] = unpack<T>(raw[p]);
    const int column = (p * thread_count() + thread_index()) * n;
    if (column >= in.columns || in.residual == nullptr) continue;
    const Floats<T> added = unpack<T>(residual[p]);
    Floats<T> bias{};
    if (in.added_bias != nullptr) bias = load_pack(in.added_bias + column);
#pragma unroll
    for (int i = 0; i < n; ++i)  // rounded, as the backward pass will read it
      x[p].v[i] = to_float(from_float<T>(x[p].v[i] + added.v[i] + bias.v[i]));
  }
  FloatPair sums{0, 0};
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    if ((p * thread_count() + thread_index()) * n >= in.columns) continue;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const float v = x[p].v[i] - shift;
      sums.x += v;
      sums.y += v * v;
    }
  }
  sums = block_sums(sums);
  const float scale = 1.0F / static_cast<float>(in.columns);
  const float offset = in.rms ? 0.0F : sums.x * scale;
  const float mean = shift + offset;
  const float rstd = rsqrtf(fmaxf(sums.y * scale - offset * offset, 0.0F) + norm_epsilon);
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    const int column = (p * thread_count() + thread_index()) * n;
    if (column >= in.columns) continue;
    if (in.residual != nullptr) store_pack(in.sum + row + column, x[p]);
    const Floats<T> weight = load_pack(in.weight + column);
    Floats<T> y{};
    if (in.bias != nullptr) y = load_pack(in.bias + column);
#pragma unroll
    for (int i = 0; i < n; ++i) y.v[i] += (x[p].v[i] - mean) * rstd * weight.v[i];
    store_pack(in.y + row + column, y);
  }
  if (thread_index() != 0) return;
  if (in.mean != nullptr) in.mean[block_index()] = mean;
  in.rstd[block_index()] = rstd;
}

/// Writes a block's sums of the parameters' gradients to the workspace, one row for each of the two
/// parameters.
template <class T, int packs>
__device__ void write_parts(const NormBackward<T>& in, const Floats<T> (&weight_sum)[packs],
                            const Floats<T> (&bias_sum)[packs]) {
  float* weight_part = in.workspace + static_cast<std::int64_t>(block_index()) * in.columns;
  float* bias_part = weight_part + static_cast<std::int64_t>(block_count()) * in.columns;
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    const int column = (p * thread_count() + thread_index()) * pack_size<T>;
    if (column >= in.columns) continue;
    store_floats<T>(weight_part + column, weight_sum[p]);
    if (in.bias_gradient != nullptr) store_floats<T>(bias_part + column, bias_sum[p]);
  }
}

/// With h = (x − mean)·rstd and g = dy·weight: dx = rstd·(g − Σg/c − h·Σ(g·h)/c), without Σg/c for RMS norm;
/// dweight = Σ over rows dy·h, dbias = Σ over rows dy. A block keeps the latter two in registers over all of
/// its rows.
template <class T, int packs>
__global__ void __launch_bounds__(max_threads) backward(NormBackward<T> in) {
  constexpr int n = pack_size<T>;
  Floats<T> weight_sum[packs], bias_sum[packs];
  RawPack weight[packs];
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    weight_sum[p] = {};
    bias_sum[p] = {};
    const int column = (p * thread_count() + thread_index()) * n;
    weight[p] = column < in.columns ? load_raw(in.weight + column) : RawPack{};
  }
  const float scale = 1.0F / static_cast<float>(in.columns);
  for (int r = block_index(); r < in.rows; r += block_count()) {
    const std::int64_t row = static_cast<std::int64_t>(r) * in.columns;
    const float mean = in.rms ? 0.0F : in.mean[r], rstd = in.rstd[r];
    RawPack x[packs], dy[packs], residual[packs];
#pragma unroll
    for (int p = 0; p < packs; ++p) {
      const int column = (p * thread_count() + thread_index()) * n;
      const bool inside = column < in.columns;
      x[p] = inside ? load_raw(in.x + row + column) : RawPack{};
      dy[p] = inside ? load_raw(in.dy + row + column) : RawPack{};
      residual[p] = inside && in.residual_gradient != nullptr ? load_raw(in.residual_gradient + row + column)
                                                              : RawPack{};
    }
    FloatPair sums{0, 0};
#pragma unroll
    for (int p = 0; p < packs; ++p) {
      const Floats<T> xs = unpack<T>(x[p]), dys = unpack<T>(dy[p]), weights = unpack<T>(weight[p]);
#pragma unroll
      for (int i = 0; i < n; ++i) {
        const float h = (xs.v[i] - mean) * rstd, g = dys.v[i] * weights.v[i];
        weight_sum[p].v[i] += dys.v[i] * h;
        bias_sum[p].v[i] += dys.v[i];
        sums.x += g;
        sums.y += g * h;
      }
    }
    sums = block_sums(sums);
    const float mean_g = in.rms ? 0.0F : sums.x * scale, mean_gh = sums.y * scale;
#pragma unroll
    for (int p = 0; p < packs; ++p) {
      const int column = (p * thread_count() + thread_index()) * n;
      if (column >= in.columns) continue;
      const Floats<T> xs = unpack<T>(x[p]), dys = unpack<T>(dy[p]), weights = unpack<T>(weight[p]);
      Floats<T> dx = unpack<T>(residual[p]);
#pragma unroll
      for (int i = 0; i < n; ++i) {
        const float h = (xs.v[i] - mean) * rstd;
        dx.v[i] += rstd * (dys.v[i] * weights.v[i] - mean_g - h * mean_gh);
      }
      store_pack(in.dx + row + column, dx);
    }
  }
  write_parts<T, packs>(in, weight_sum, bias_sum);
}

/// Returns the number of blocks that are resident at once. Enough must be resident to keep loads in flight
/// while some wait at a barrier; more would only write more rows of sums. With one pack a thread has 64
/// registers, with more it has 128.
int backward_blocks(int rows, int packs, int threads) {
  const int each = packs == 1 ? std::clamp(768 / threads, 2, 6) : std::clamp(512 / threads, 1, 4);
  return std::min(rows, device_limits().multiprocessors * each);
}

/// Returns the number of threads of a block that holds one row, with `each` packs per thread. Throws
/// DeviceError if `columns` is not supported.
template <class T>
int threads_of_row(int columns, int each) {
  const int packs = columns / pack_size<T>;
  if (columns <= 0 || columns % pack_size<T> != 0 || packs > max_packs * max_threads)
    throw DeviceError("norm: " + std::to_string(columns) + " columns are not supported; use a multiple of " +
                      std::to_string(pack_size<T>) + " up to " +
                      std::to_string(max_packs * max_threads * pack_size<T>));
  return ceil_div(ceil_div(packs, each), warp_size) * warp_size;
}

template <class T, int packs>
int launch_backward(const NormBackward<T>& in) {
  const int threads = threads_of_row<T>(in.columns, packs), blocks = backward_blocks(in.rows, packs, threads);
  launch(backward<T, packs>, {static_cast<unsigned>(blocks)}, threads, 0, in);
  return blocks;
}

}  // namespace

template <class T>
void norm_forward(const NormForward<T>& in) {
  // Each thread issues as many loads as possible at once, because the block issues none while it reduces.
  launch(forward<T, max_packs>, {static_cast<unsigned>(in.rows)}, threads_of_row<T>(in.columns, max_packs), 0,
         in);
}

std::size_t norm_workspace(int rows, int columns) {
  return 2 * static_cast<std::size_t>(backward_blocks(rows, 1, warp_size)) *
         static_cast<std::size_t>(columns);
}

template <class T>
void norm_backward(const NormBackward<T>& in) {
  const int packs = in.columns / pack_size<T>;
  const int blocks = packs <= 128               ? launch_backward<T, 1>(in)
                     : packs <= 2 * max_threads ? launch_backward<T, 2>(in)
                                                : launch_backward<T, max_packs>(in);
  add_parts(in.workspace, blocks, in.columns, in.weight_gradient, in.bias_gradient, in.accumulate);
}

#define DTFM_INSTANTIATE(T)                             \
  template void norm_forward<T>(const NormForward<T>&); \
  template void norm_backward<T>(const NormBackward<T>&);
DTFM_INSTANTIATE(float)
DTFM_INSTANTIATE(Half)
DTFM_INSTANTIATE(Bfloat16)

}  // namespace dtfm::kernels
