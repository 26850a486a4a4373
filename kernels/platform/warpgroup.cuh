// Matrix products of a warpgroup (four warps, the first one's index a multiple of four), as Hopper's tensor
// cores compute them (PTX ISA, "wgmma"): asynchronously, with B and optionally A read from shared memory.
//
// With g and t as in platform/fragment.hpp, and w the warp's index in its warpgroup, c[j] of a product with
// 64 rows and N columns is the C fragment of rows 16·w … and columns 8·j …; A from registers is the A
// fragment of these rows. An operand in shared memory consists of panels of 64 columns, with 128 bytes per
// row, in the 128-byte swizzle: in row r, the 16-byte chunk i is stored at position i ^ (r % 8). Panels are
// aligned to 1,024 bytes.
//
//   has_warpgroup_products     whether this code is compiled for a device that has them
//   begin_products()           required before a product if other instructions have written registers that it
//                              reads or adds to
//   multiply_warpgroup<T, N>   c = a · b or c += a · b, 16 elements along the inner dimension
//   commit_products()          ends a group of products
//   wait_products<n>()         waits until at most n groups are pending; while a group is pending, its c must
//                              not be read and its operands must not be overwritten. No operand ties c to
//                              the wait: if a compiler moved a use of c above it, ptxas would serialize the
//                              products and say so (C7510 to C7520), which it does not for the kernels here
//   publish_shared()           what this thread wrote to shared memory becomes visible to products that are
//                              started after the next barrier
#pragma once

#include "kernels/platform/platform.cuh"

namespace dtfm::kernels {

inline constexpr int warpgroup_size = 4 * warp_size;
inline constexpr int panel_columns = 64;  // of 16 bits each
inline constexpr int panel_row_bytes = 2 * panel_columns;
inline constexpr int row_group_bytes = 8 * panel_row_bytes;  // the pattern of chunks repeats every eight rows

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

/// An operand that starts at `start` and whose inner dimension runs along the rows of its panel.
__device__ inline MatrixOperand row_operand(SharedAddress start) {
  constexpr int unused_bytes = 16;  // the hardware ignores this stride in the 128-byte swizzle
  return {start, unused_bytes, row_group_bytes};
}

/// An operand that starts at `start` and whose inner dimension runs across the rows of its panels. Each
/// further 64 rows or columns of C lie in the next panel, `panel_bytes` later.
__device__ inline MatrixOperand column_operand(SharedAddress start, int panel_bytes) {
  return {start, panel_bytes, row_group_bytes};
}

}  // namespace dtfm::kernels
