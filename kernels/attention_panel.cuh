// Tiles of matrices in shared memory as operands of warpgroup products.
#pragma once

#include "kernels/attention_fragment.cuh"
#include "kernels/platform/warpgroup.cuh"

namespace dtfm::kernels {

/// A tile of 16-bit numbers, as panels of 64 columns that warpgroup products can read. It must be aligned to
/// 1,024 bytes; `rows` is a multiple of eight.
template <class T, int rows, int columns>
struct PanelTile {
  static_assert(sizeof(T) == 2 && rows % 8 == 0 && columns % panel_columns == 0);
  static constexpr int size = rows * columns, panel_bytes = rows * panel_row_bytes;
  T* data;

  __device__ T* at(int row, int column) const {
    const int chunk = column % panel_columns / 8 ^ row % 8;
    return data + column / panel_columns * rows * panel_columns + row * panel_columns + chunk * 8 +
           column % 8;
  }

  /// An operand whose outer dimension (rows of A, columns of B) is the rows from first_row on, a multiple of
  /// eight, and whose inner dimension is the 16 columns from `column` on.
  __device__ MatrixOperand by_rows(int first_row, int column) const {
    return row_operand(start(first_row, column) + static_cast<SharedAddress>(column % panel_columns * 2));
  }

  /// An operand whose outer dimension is the columns from `column` on, a multiple of 64, and whose inner
  /// dimension is the 16 rows from first_row on.
  __device__ MatrixOperand by_columns(int first_row, int column) const {
    return column_operand(start(first_row, column), panel_bytes);
  }

 private:
  __device__ SharedAddress start(int row, int column) const {
    return shared_address(data) +
           static_cast<SharedAddress>(column / panel_columns * panel_bytes + row * panel_row_bytes);
  }
};

/// Starts asynchronous copies of the tile's rows, `stride` apart, beginning at `from`. Rows from `rows_left`
/// on become zero.
template <int threads, class T, int rows, int columns>
__device__ void load_panels(PanelTile<T, rows, columns> tile, const T* from, int stride, int rows_left) {
  constexpr int chunks = columns / 8, rows_of_pass = threads / chunks;
  static_assert(threads % chunks == 0 && rows % rows_of_pass == 0);
  const int thread = opaque(thread_index());
  const int first = thread / chunks, column = thread % chunks * 8;
#pragma unroll
  for (int row = 0; row < rows; row += rows_of_pass)
    copy_async(tile.at(first + row, column), from + static_cast<std::int64_t>(first + row) * stride + column,
               first + row < rows_left);
}

/// Scales and rounds the 16 rows of a warp's fragments, stages them in rows first_row … of the tile, which no
/// other thread may be using, and writes those up to rows_left to the same rows of `to`, `stride` apart.
template <class T, int rows, int columns>
__device__ void write_rows(const float (&c)[columns / 8][4], PanelTile<T, rows, columns> tile, int first_row,
                           float upper, float lower, T* to, int stride, int rows_left) {
  const LanePlace at = lane_place();
#pragma unroll
  for (int j = 0; j < columns / 8; ++j) {
    store_pair(tile.at(first_row + at.g, 8 * j + 2 * at.t),
               make_pair_of<T>(c[j][0] * upper, c[j][1] * upper));
    store_pair(tile.at(first_row + at.g + 8, 8 * j + 2 * at.t),
               make_pair_of<T>(c[j][2] * lower, c[j][3] * lower));
  }
  __syncwarp();
  store_rows<16, columns>(tile, first_row, to, stride, rows_left);
}

}  // namespace dtfm::kernels
