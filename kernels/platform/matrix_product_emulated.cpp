#include "kernels/platform/matrix_product.hpp"

#include <cstddef>

#include "kernels/platform/types.hpp"

namespace dtfm::kernels {

template <class T>
void matrix_product(const ProductShape& shape, const T* a, const T* b, T* c, float beta) {
  const std::ptrdiff_t m = shape.m, n = shape.n, k = shape.k;
  for (std::ptrdiff_t batch = 0; batch < shape.batch; ++batch, a += m * k, b += k * n, c += m * n)
    for (std::ptrdiff_t i = 0; i < m; ++i)
      for (std::ptrdiff_t j = 0; j < n; ++j) {
        float sum = 0;
        for (std::ptrdiff_t l = 0; l < k; ++l)
          sum += to_float(shape.transpose_a ? a[l * m + i] : a[i * k + l]) *
                 to_float(shape.transpose_b ? b[j * k + l] : b[l * n + j]);
        if (beta != 0) sum += beta * to_float(c[i * n + j]);  // as in BLAS, c is not read if beta is zero
        c[i * n + j] = from_float<T>(sum);
      }
}

template void matrix_product<float>(const ProductShape&, const float*, const float*, float*, float);
template void matrix_product<Half>(const ProductShape&, const Half*, const Half*, Half*, float);
template void matrix_product<Bfloat16>(const ProductShape&, const Bfloat16*, const Bfloat16*, Bfloat16*,
                                       float);

}  // namespace dtfm::kernels
