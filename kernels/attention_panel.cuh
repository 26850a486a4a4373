// Tiles of matrices in shared memory as operands of warpgroup products.
#pragma once

#include "kernels/attention_softmax.cuh"
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

  /// Rows first_row … (a multiple of eight) as rows or columns of C; the inner dimension is columns column …
  /// column + 15 of the tile.
  __device__ MatrixOperand by_rows(int first_row, int column) const {
    return row_operand(start(first_row, column) + static_cast<SharedAddress>(column % panel_columns * 2));
  }

  /// Columns column … (a multiple of 64) as rows or columns of C; the inner dimension is rows first_row …
  /// first_row + 15 of the tile.
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
  constexpr int chunks = columns / 8, count = rows * chunks;
  const int thread = opaque(thread_index());
#pragma unroll
  for (int first = 0; first < count; first += threads) {
    const int i = first + thread, row = i / chunks, column = i % chunks * 8;
    if (count % threads != 0 && i >= count) break;
    copy_async(tile.at(row, column), from + static_cast<std::int64_t>(row) * stride + column,
               row < rows_left);
  }
}

/// Scales, rounds and writes the 16 rows of a warp's fragments, through its rows first_row … of the tile,
/// which no other thread may be using. Row first_row of the tile goes to `to`, further rows `stride` apart,
/// as far as they are among the first rows_left.
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
  constexpr int chunks = columns / 8;
#pragma unroll
  for (int i = at.lane; i < 16 * chunks; i += warp_size) {
    const int row = i / chunks, column = i % chunks * 8;
    if (row < rows_left)
      store_raw(to + static_cast<std::int64_t>(row) * stride + column,
                load_raw(tile.at(first_row + row, column)));
  }
}

}  // namespace dtfm::kernels
