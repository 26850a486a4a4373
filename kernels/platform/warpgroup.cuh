// Matrix products of a warpgroup (four warps, the first one's index a multiple of four), as Hopper's tensor
// cores compute them (PTX ISA, "wgmma"): asynchronously, with B and optionally A read from shared memory.
//
// With lane places g and t of a warp w of the group (platform/fragment.hpp), c[j] of a product with 64 rows
// and N columns is the C fragment of rows 16·w … and columns 8·j …; A from registers is the A fragment of
// these rows. An operand in shared memory is a tile of rows of 128 bytes whose 16-byte chunks are permuted:
// chunk i of row r is at place i ^ (r % 8). Tiles are aligned to 1,024 bytes.
//
//   has_warpgroup_products     whether this code is compiled for a device that has them
//   row_operand, column_operand  describe an operand; see below
//   begin_products()           before the first product after others wrote registers that it uses
//   multiply_warpgroup<T, N>   c += a · b, 16 numbers along the inner dimension
//   commit_products()          ends a group of products
//   wait_products<n>()         waits until at most n groups are pending: until then, neither c may be read
//                              nor an operand overwritten
//   publish_shared()           what this thread wrote to shared memory becomes visible to products that are
//                              started after the next barrier
#pragma once

#include "kernels/platform/platform.cuh"

namespace dtfm::kernels {

/// Where an operand starts in shared memory, and the strides of a matrix descriptor (PTX ISA).
struct MatrixOperand {
  SharedAddress start;
  int leading_bytes, stride_bytes;
};

}  // namespace dtfm::kernels

#ifdef __CUDACC__
#include "kernels/platform/warpgroup_gpu.cuh"
#else
#include "kernels/platform/warpgroup_emulated.hpp"
#endif

namespace dtfm::kernels {

inline constexpr int warpgroup_size = 4 * warp_size;
inline constexpr int panel_columns = 64;  // 16-bit numbers in a row of 128 bytes
inline constexpr int panel_row_bytes = 128;
inline constexpr int row_group_bytes = 8 * panel_row_bytes;  // the pattern of chunks repeats every eight rows

/// Operand of 64 rows or columns (of C) from `start` on whose inner dimension runs along the rows of the
/// tile.
__device__ inline MatrixOperand row_operand(SharedAddress start) {
  return {start, 16, row_group_bytes};
}

/// Operand whose inner dimension runs across the rows of the tile, from the row at `start` on. Every 64 rows
/// or columns of C are another tile, `tile_bytes` after the previous one.
__device__ inline MatrixOperand column_operand(SharedAddress start, int tile_bytes) {
  return {start, tile_bytes, row_group_bytes};
}

}  // namespace dtfm::kernels
