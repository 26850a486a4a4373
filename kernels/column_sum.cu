#include "kernels/column_sum.hpp"

#include <algorithm>

#include "kernels/platform/pack.cuh"

namespace dtfm::kernels {
namespace {

constexpr int threads = 256;
constexpr int columns_of_block = 32;  // in packs: a warp reads 512 bytes of a row
constexpr int row_lanes = threads / columns_of_block;
constexpr int rows_of_thread = 32;
constexpr int rows_at_once = 8;  // loaded before any is added, so that all loads are in flight together

int part_count(int rows) {
  return ceil_div(rows, row_lanes * rows_of_thread);
}

/// Block (x, y) sums packs 32·x … of the columns over the y-th share of the rows.
template <class T>
__global__ void __launch_bounds__(threads, 4)
    sum_rows(const T* x, int rows, int columns, int row_stride, float* parts) {
  constexpr int n = pack_size<T>;
  __shared__ float shared[row_lanes][columns_of_block * n + 1];
  const int lane = thread_index() % columns_of_block, row_lane = thread_index() / columns_of_block;
  const int column = (block_index() * columns_of_block + lane) * n;
  Floats<T> sum{};
  if (column < columns) {
    const int first = static_cast<int>(blockIdx.y) * row_lanes * rows_of_thread + row_lane;
#pragma unroll 1
    for (int i = 0; i < rows_of_thread; i += rows_at_once) {
      RawPack raw[rows_at_once];
#pragma unroll
      for (int j = 0; j < rows_at_once; ++j) {
        const int row = first + (i + j) * row_lanes;
        raw[j] = row < rows ? load_raw(x + static_cast<std::int64_t>(row) * row_stride + column) : RawPack{};
      }
#pragma unroll
      for (int j = 0; j < rows_at_once; ++j) {
        const Floats<T> value = unpack<T>(raw[j]);
#pragma unroll
        for (int k = 0; k < n; ++k) sum.v[k] += value.v[k];
      }
    }
  }
#pragma unroll
  for (int k = 0; k < n; ++k) shared[row_lane][lane * n + k] = sum.v[k];
  __syncthreads();
  for (int c = thread_index(); c < columns_of_block * n; c += threads) {
    const int to = block_index() * columns_of_block * n + c;
    if (to >= columns) break;
    float total = 0;
    for (int r = 0; r < row_lanes; ++r) total += shared[r][c];
    parts[static_cast<std::int64_t>(blockIdx.y) * columns + to] = total;
  }
}

constexpr int part_groups = 32;

/// Uses 32 columns per block and 32 threads per column: the parts come from cache, so latency dominates.
template <class T>
__global__ void __launch_bounds__(32 * part_groups)
    sum_parts(const float* parts, int part_count, int columns, T* first, T* second, bool accumulate) {
  __shared__ float shared[part_groups][33];
  const int lane = thread_index() % 32, group = thread_index() / 32;
  const int column = block_index() * 32 + lane;
  const bool is_second = blockIdx.y == 1;
  const float* const mine = is_second ? parts + static_cast<std::int64_t>(part_count) * columns : parts;
  float total = 0;
  if (column < columns) {
#pragma unroll 8
    for (int part = group; part < part_count; part += part_groups)
      total += mine[static_cast<std::int64_t>(part) * columns + column];
  }
  shared[group][lane] = total;
  __syncthreads();
  if (group != 0 || column >= columns) return;
  for (int i = 1; i < part_groups; ++i) total += shared[i][lane];
  T* const sums = is_second ? second : first;
  sums[column] = from_float<T>(accumulate ? to_float(sums[column]) + total : total);
}

}  // namespace

std::size_t column_sum_workspace(int rows, int columns) {
  return static_cast<std::size_t>(part_count(rows)) * static_cast<std::size_t>(columns);
}

template <class T>
void add_parts(const float* parts, int part_count, int columns, T* first, T* second, bool accumulate) {
  launch(sum_parts<T>, {static_cast<unsigned>(ceil_div(columns, 32)), second != nullptr ? 2u : 1u},
         32 * part_groups, 0, parts, part_count, columns, first, second, accumulate);
}

template <class T>
void column_sum(const T* x, int rows, int columns, int row_stride, T* sums, bool accumulate,
                float* workspace) {
  const int blocks = ceil_div(columns, columns_of_block * pack_size<T>);
  launch(sum_rows<T>, {static_cast<unsigned>(blocks), static_cast<unsigned>(part_count(rows))}, threads, 0, x,
         rows, columns, row_stride, workspace);
  add_parts<T>(workspace, part_count(rows), columns, sums, nullptr, accumulate);
}

#define DTFM_INSTANTIATE(T)                                               \
  template void column_sum<T>(const T*, int, int, int, T*, bool, float*); \
  template void add_parts<T>(const float*, int, int, T*, T*, bool);
DTFM_INSTANTIATE(float)
DTFM_INSTANTIATE(Half)
DTFM_INSTANTIATE(Bfloat16)

}  // namespace dtfm::kernels
