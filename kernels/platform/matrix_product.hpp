// Matrix products: by cuBLAS on a GPU, by three loops in the emulation.
#pragma once

namespace dtfm::kernels {

/// c = op(a) · op(b) + beta · c: c is m × n, op(a) m × k, op(b) k × n, where op transposes if asked. Matrices
/// lie row by row without gaps; a batch of them one after another.
struct ProductShape {
  int m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int batch = 1;
};

/// T is float, Half or Bfloat16; sums are float. Throws DeviceError where cuBLAS is not found or refuses.
template <class T>
void matrix_product(const ProductShape& shape, const T* a, const T* b, T* c, float beta = 0);

}  // namespace dtfm::kernels
