// Warpgroup products without a GPU. Included by warpgroup.cuh. Each thread computes its own numbers of C,
// either when it starts the product or when it waits for it (emulation::Schedule).
#pragma once

namespace dtfm::kernels {

inline constexpr bool has_warpgroup_products = true;

inline void begin_products() {}
inline void commit_products() {
  emulation::commit_products();
}
template <int n>
void wait_products() {
  emulation::wait_products(n);
}
inline void publish_shared() {}

/// Returns the operand's element at `outer`, a row or column of C, and `inner`.
template <class T, bool transposed>
float number_of(MatrixOperand of, int outer, int inner) {
  constexpr int pattern_rows = row_group_bytes / panel_row_bytes;
  const int outer_bytes =
      transposed ? outer / panel_columns * of.leading_bytes + outer % panel_columns * 2
                 : outer / pattern_rows * of.stride_bytes + outer % pattern_rows * panel_row_bytes;
  const int inner_bytes =
      transposed ? inner / pattern_rows * of.stride_bytes + inner % pattern_rows * panel_row_bytes
                 : inner * 2;
  SharedAddress address = of.start + static_cast<SharedAddress>(outer_bytes + inner_bytes);
  address ^= address / panel_row_bytes % pattern_rows * 16;
  T number;
  std::memcpy(&number, reinterpret_cast<const void*>(address), sizeof number);
  return to_float(number);
}

/// Starts c = rows · b, plus the previous c if `accumulate`; rows(half, k) is element k of the
/// upper or lower of the lane's two rows of A.
template <class T, int N, bool transpose_b, class Rows>
void start_product(float (&c)[N / 8][4], Rows rows, MatrixOperand b, bool accumulate) {
  if (b.start % 16 != 0) emulation::fail("matrix operand: address is not 16-byte aligned");
  const int t = lane_of_thread() % 4;
  emulation::start_product([&c, rows, b, accumulate, t] {
    float left[2][16];
    for (int half = 0; half < 2; ++half)
      for (int k = 0; k < 16; ++k) left[half][k] = rows(half, k);
    for (int j = 0; j < N / 8; ++j)
      for (int i = 0; i < 4; ++i) {
        float sum = accumulate ? c[j][i] : 0;
        for (int k = 0; k < 16; ++k)
          sum += left[i / 2][k] * number_of<T, transpose_b>(b, 8 * j + 2 * t + i % 2, k);
        c[j][i] = sum;
      }
  });
}

template <class T, int N, bool transpose_a, bool transpose_b>
void multiply_warpgroup(float (&c)[N / 8][4], MatrixOperand a, MatrixOperand b, bool accumulate) {
  const int first = static_cast<int>(threadIdx.x) / 32 % 4 * 16 + lane_of_thread() / 4;
  start_product<T, N, transpose_b>(
      c, [a, first](int half, int k) { return number_of<T, transpose_a>(a, first + 8 * half, k); }, b,
      accumulate);
}

template <class T, int N, bool transpose_b>
void multiply_warpgroup(float (&c)[N / 8][4], const std::uint32_t (&a)[4], MatrixOperand b) {
  struct Rows {
    float number[2][16];
    float operator()(int half, int k) const { return number[half][k]; }
  } rows;
  const std::byte* warp = emulation::exchange_lanes(&a, sizeof a);
  for (int t = 0; t < 4; ++t) {
    struct Fragment {
      std::uint32_t pair[4];
    };
    const auto fragment = emulation::read_lane<Fragment>(warp, (lane_of_thread() & ~3) + t);
    for (int i = 0; i < 4; ++i) {
      const FloatPair pair = floats_of<T>(fragment.pair[i]);
      rows.number[i % 2][i / 2 * 8 + 2 * t] = pair.x;
      rows.number[i % 2][i / 2 * 8 + 2 * t + 1] = pair.y;
    }
  }
  start_product<T, N, transpose_b>(c, rows, b, true);
}

}  // namespace dtfm::kernels
