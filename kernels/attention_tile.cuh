// Tiles of matrices in shared memory, and loads of matrix-product operands from them.
#pragma once

#include "kernels/attention_fragment.cuh"

namespace dtfm::kernels {

/// A tile with rows of `columns` numbers. The 16-byte chunks of each row are permuted (swizzled), differently
/// from row to row, so that a column of chunks is spread over all banks of shared memory. The pattern repeats
/// every eight rows and is an exclusive or; where `column` and c have no bit in common, therefore,
///   offset(row + 8·i, column + c) = (offset(row, column) ^ c) + 8·i·columns
/// which takes a lane from one position to the next in at most one instruction.
template <class T, int columns>
struct Tile {
  static constexpr int pack = pack_size<T>, chunks = columns / pack;
  static constexpr int swapped = chunks < 8 ? chunks : 8, rows_of_128_bytes = 8 / swapped;
  T* data;

  __device__ static int offset(int row, int column) {
    const int chunk = (column / pack) ^ (row / rows_of_128_bytes % swapped);
    return row * columns + chunk * pack + column % pack;
  }
  __device__ T* at(int row, int column) const { return data + offset(row, column); }
};

/// Starts asynchronous copies of `rows` rows, `stride` apart, beginning at `from`. Rows from `rows_left` on
/// become zero.
template <int rows, int threads, class T, int columns>
__device__ void load_tile(Tile<T, columns> tile, const T* from, int stride, int rows_left) {
  constexpr int chunks = columns / pack_size<T>, rows_of_pass = threads / chunks;
  static_assert(threads % chunks == 0 && rows % rows_of_pass == 0);
  const int thread = opaque(thread_index());
  const int first = thread / chunks, column = thread % chunks * pack_size<T>;
  const T* source = from + static_cast<std::int64_t>(first) * stride + column;
#pragma unroll
  for (int row = 0; row < rows;
       row += rows_of_pass) {  // incrementing pointers needs fewer registers than offsets
    copy_async(tile.at(first + row, column), source, first + row < rows_left);
    source += static_cast<std::int64_t>(rows_of_pass) * stride;
  }
}

/// Scales and rounds fragment c, and stores it at (row, column) of the tile.
template <class T, int columns>
__device__ void store_fragment(Tile<T, columns> tile, LanePlace at, int row, int column, const float (&c)[4],
                               float upper, float lower) {
  T* const to = tile.data + (tile.offset(row + at.g, 2 * at.t) ^ column);
  store_pair(to, make_pair_of<T>(c[0] * upper, c[1] * upper));
  store_pair(to + 8 * columns, make_pair_of<T>(c[2] * lower, c[3] * lower));
}

template <class T, int columns>
__device__ Pair<T> pair_at(Tile<T, columns> tile, int row, int column) {
  return {*tile.at(row, column), *tile.at(row, column + 1)};
}

template <class T, int columns>
__device__ Pair<T> pair_below(Tile<T, columns> tile, int row, int column) {
  return {*tile.at(row, column), *tile.at(row + 1, column)};
}

/// Returns the address that a lane passes to load_matrices for the 16 × 16 numbers at (row, column), both
/// multiples of 16. (lane_row, lane_column) is the position of the lane's own numbers within them. Tiles are
/// aligned to the size of their rows, so the exclusive or can be applied to the address itself.
template <class T, int columns>
__device__ SharedAddress matrices_at(Tile<T, columns> tile, int lane_row, int lane_column, int row,
                                     int column) {
  const auto bytes = [](int numbers) {
    return static_cast<SharedAddress>(numbers * static_cast<int>(sizeof(T)));
  };
  return (shared_address(tile.at(lane_row, lane_column)) ^ bytes(column)) + bytes(row * columns);
}

/// Loads A (16 × 16) from a tile that holds A: A[i][k] is at (row + i, column + k).
template <class T, int columns>
__device__ void load_a(Pair<T> (&a)[4], Tile<T, columns> tile, LanePlace at, int row, int column) {
  if constexpr (sizeof(T) == 2) {
    load_matrices(a, matrices_at(tile, at.lane % 16, at.lane / 16 * 8, row, column));
  } else {
    for (int i = 0; i < 4; ++i) a[i] = pair_at(tile, row + at.g + i % 2 * 8, column + 2 * at.t + i / 2 * 8);
  }
}

/// Loads A (16 × 16) from a tile that holds its transpose: A[i][k] is at (row + k, column + i).
template <class T, int columns>
__device__ void load_a_transposed(Pair<T> (&a)[4], Tile<T, columns> tile, LanePlace at, int row, int column) {
  if constexpr (sizeof(T) == 2) {
    load_matrices_transposed(
        a, matrices_at(tile, at.lane % 8 + at.lane / 16 * 8, at.lane / 8 % 2 * 8, row, column));
  } else {
    for (int i = 0; i < 4; ++i)
      a[i] = pair_below(tile, row + 2 * at.t + i / 2 * 8, column + at.g + i % 2 * 8);
  }
}

/// Loads two adjacent B fragments (16 × 16) from a tile that holds the transpose: B[k][j] is at (row + j,
/// column + k). The first fragment is b[0], b[1], the second b[2], b[3].
template <class T, int columns>
__device__ void load_b(Pair<T> (&b)[4], Tile<T, columns> tile, LanePlace at, int row, int column) {
  if constexpr (sizeof(T) == 2) {
    load_matrices(b, matrices_at(tile, at.lane % 8 + at.lane / 16 * 8, at.lane / 8 % 2 * 8, row, column));
  } else {
    for (int i = 0; i < 4; ++i) b[i] = pair_at(tile, row + at.g + i / 2 * 8, column + 2 * at.t + i % 2 * 8);
  }
}

/// Like load_b, but from a tile that holds B itself: B[k][j] is at (row + k, column + j).
template <class T, int columns>
__device__ void load_b_transposed(Pair<T> (&b)[4], Tile<T, columns> tile, LanePlace at, int row, int column) {
  if constexpr (sizeof(T) == 2) {
    load_matrices_transposed(b, matrices_at(tile, at.lane % 16, at.lane / 16 * 8, row, column));
  } else {
    for (int i = 0; i < 4; ++i)
      b[i] = pair_below(tile, row + 2 * at.t + i % 2 * 8, column + at.g + i / 2 * 8);
  }
}

/// left += a · first fragment of b; right += a · second fragment of b.
template <class T>
__device__ void multiply_both(float (&left)[4], float (&right)[4], const Pair<T> (&a)[4],
                              const Pair<T> (&b)[4]) {
  const Pair<T> first[2] = {b[0], b[1]}, second[2] = {b[2], b[3]};
  multiply_fragments<T>(left, a, first);
  multiply_fragments<T>(right, a, second);
}

}  // namespace dtfm::kernels
