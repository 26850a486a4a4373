// Matrix products: by cuBLAS on a GPU, by three loops in the emulation.
#pragma once

namespace dtfm::kernels {

/// c = op(a) · op(b) + beta · c, where c is m × n, op(a) m × k, op(b) k × n, and op optionally transposes.
/// Matrices are row-major and contiguous, as are the matrices of a batch.
struct ProductShape {
  int m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int batch = 1;
};

/// T is float, Half or Bfloat16; sums are float. Throws DeviceError if cuBLAS is not found or a call fails.
template <class T>
void matrix_product(const ProductShape& shape, const T* a, const T* b, T* c, float beta = 0);

}  // namespace dtfm::kernels
