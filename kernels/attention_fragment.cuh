// What the kernels of attention do with fragments (platform/fragment.hpp) and tiles of any layout.
#pragma once

#include "kernels/platform/pack.cuh"

namespace dtfm::kernels {

/// A thread's position in a fragment (platform/fragment.hpp).
struct LanePlace {
  int lane, g, t;
};

/// Recomputed in each step of a loop over tiles, so that the compiler computes dependent addresses where they
/// are used instead of keeping them in registers, which are scarce, for the whole loop.
__device__ inline LanePlace lane_place() {
  const int lane = opaque(thread_index() % warp_size);
  return {lane, lane / 4, lane % 4};
}

/// Converts two adjacent C fragments to one A fragment.
template <class T>
__device__ void as_operand(Pair<T> (&a)[4], const float (&left)[4], const float (&right)[4]) {
  a[0] = make_pair_of<T>(left[0], left[1]);
  a[1] = make_pair_of<T>(left[2], left[3]);
  a[2] = make_pair_of<T>(right[0], right[1]);
  a[3] = make_pair_of<T>(right[2], right[3]);
}

template <class T>
__device__ inline void store_pair(T* to, Pair<T> pair) {
  *reinterpret_cast<Pair<T>*>(to) = pair;
}

/// `from` is 8-byte aligned.
__device__ inline FloatPair load_pair(const float* from) {
  return *reinterpret_cast<const FloatPair*>(from);
}

template <int n>
__device__ void clear(float (&fragments)[n][4]) {
#pragma unroll
  for (auto& f : fragments) f[0] = f[1] = f[2] = f[3] = 0;
}

/// Writes rows first … first + rows − 1 of a tile with `columns` columns, up to rows_left, to the same rows
/// of `to`, which are `stride` apart. Called by one warp, after it has synchronized.
template <int rows, int columns, class T, class Tile>
__device__ void store_rows(Tile tile, int first, T* to, int stride, int rows_left) {
  constexpr int chunks = columns / pack_size<T>;
#pragma unroll
  for (int i = thread_index() % warp_size; i < rows * chunks; i += warp_size) {
    const int row = first + i / chunks, column = i % chunks * pack_size<T>;
    if (row < rows_left)
      store_raw(to + static_cast<std::int64_t>(row) * stride + column, load_raw(tile.at(row, column)));
  }
}

}  // namespace dtfm::kernels
