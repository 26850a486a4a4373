// Which elements of the operands of a tensor-core matrix product a lane holds: pairs of neighbours along the
// inner dimension. With g = lane / 4 and t = lane % 4 (PTX ISA, "Matrix fragments for mma.m16n8k16"):
//   A, 16 × 16:  a[0] = (g, 2t…)  a[1] = (g + 8, 2t…)  a[2] = (g, 2t + 8…)  a[3] = (g + 8, 2t + 8…)
//   B, 16 × 8:   b[0] = (2t…, g)  b[1] = (2t + 8…, g)
//   C, 16 × 8:   c[0], c[1] = (g, 2t), (g, 2t + 1)     c[2], c[3] = (g + 8, 2t), (g + 8, 2t + 1)
// Two adjacent C fragments, rounded to pairs, are therefore an A fragment: no shuffle is needed between two
// products.
#pragma once

#include <cstdint>

namespace dtfm::kernels {

struct alignas(8) FloatPair {
  float x, y;
};

template <class T>
struct PairOf {
  using type = std::uint32_t;  // two 16-bit numbers, the first in the low half
};
template <>
struct PairOf<float> {
  using type = FloatPair;
};
template <class T>
using Pair = typename PairOf<T>::type;

/// 16 bytes in memory order.
struct alignas(16) RawPack {
  std::uint32_t word[4];
};

}  // namespace dtfm::kernels
