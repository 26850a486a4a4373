// Layer norm and RMS norm, fused with the residual addition that precedes them.
#pragma once

#include <cstddef>

namespace dtfm::kernels {

inline constexpr float norm_epsilon = 1e-5F;  // as in GPT-2 and LLaMA

/// Maximum size of a row. A block of 512 threads holds it in registers, four packs of 16 bytes per thread:
/// 16,384 numbers of 16 bits or 8,192 of 32 bits.
inline constexpr int max_norm_bytes = 512 * 4 * 16;

/// Matrices are rows × columns, row-major. `columns` must be a multiple of 16 / sizeof(T), and a row at most
/// max_norm_bytes long. Layer norm: y = (x − mean) · rstd · weight + bias. RMS norm (`bias` null): y = x ·
/// rstd · weight, and mean is 0.
template <class T>
struct NormForward {
  int rows = 0, columns = 0;
  bool rms = false;
  const T* x = nullptr;
  const T* residual = nullptr;    // if given, x is first replaced by x + residual (+ added_bias)
  const T* added_bias = nullptr;  // of `columns`; may be null
  T* sum = nullptr;               // where that sum is written; may be residual or x itself
  const T* weight = nullptr;      // of `columns`
  const T* bias = nullptr;        // of `columns`; null for RMS norm
  T* y = nullptr;
  float* mean = nullptr;  // of `rows`; may be null for RMS norm
  float* rstd = nullptr;  // of `rows`: 1 / √(variance + norm_epsilon)
};

template <class T>
void norm_forward(const NormForward<T>& in);

/// Gradients of a norm's input x and of its parameters, in one pass over x and dy.
template <class T>
struct NormBackward {
  int rows = 0, columns = 0;
  bool rms = false;
  const T* x = nullptr;
  const T* dy = nullptr;
  const T* weight = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const T* residual_gradient = nullptr;  // if given, added to dx
  T* dx = nullptr;                       // may be residual_gradient itself
  T* weight_gradient = nullptr;          // of `columns`
  T* bias_gradient = nullptr;            // of `columns`; null for RMS norm
  bool accumulate = false;               // add to the parameters' gradients instead of overwriting them
  float* workspace = nullptr;            // norm_workspace(rows, columns) floats
};

std::size_t norm_workspace(int rows, int columns);

template <class T>
void norm_backward(const NormBackward<T>& in);

}  // namespace dtfm::kernels
