// Token and position embedding.
#pragma once

namespace dtfm::kernels {

/// y[r] = tokens[id[r]] + positions[r % sequence]. `columns` must be a multiple of 16 / sizeof(T),
/// `positions` may be null (rotary models), and ids must be less than the number of rows of `tokens`.
template <class T>
void embedding_forward(int rows, int columns, int sequence, const int* ids, const T* tokens,
                       const T* positions, T* y);

/// token_gradient[id[r]] += dy[r], in float and atomically because several rows may have the same token;
/// position_gradient[p] (+)= Σ dy at that position. position_gradient may be null.
template <class T>
void embedding_backward(int rows, int columns, int sequence, const int* ids, const T* dy,
                        float* token_gradient, float* position_gradient, bool accumulate_positions);

}  // namespace dtfm::kernels
