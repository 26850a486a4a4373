// Linear map without bias, and its gradients, as three matrix products.
#pragma once

#include <cstddef>

#include "kernels/platform/matrix_product.hpp"

namespace dtfm::kernels {

inline constexpr float initial_deviation = 0.02F;  // standard deviation of weights, as in GPT-2

inline std::size_t numbers(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

/// y (rows × out) = x (rows × in) · weightᵀ, where weight is out × in.
template <class T>
void linear(int rows, int out, int in, const T* x, const T* weight, T* y) {
  matrix_product<T>({rows, out, in, false, true}, x, weight, y);
}

/// dx = dy · weight, and dweight = dyᵀ · x, which is added to dweight if `accumulate`.
template <class T>
void linear_backward(int rows, int out, int in, const T* x, const T* weight, const T* dy, T* dx, T* dweight,
                     bool accumulate) {
  matrix_product<T>({rows, in, out, false, false}, dy, weight, dx);
  matrix_product<T>({out, in, rows, true, false}, dy, x, dweight, accumulate ? 1.0F : 0.0F);
}

}  // namespace dtfm::kernels
