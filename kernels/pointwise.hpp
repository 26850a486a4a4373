// Elementwise operations: activations, rotary embedding, biases and residuals. All arrays must be 16-byte
// aligned and rows contiguous, and the number of columns must be a multiple of 16 / sizeof(T).
#pragma once

namespace dtfm::kernels {

/// y = x + residual (+ bias of `columns`, which may be null).
template <class T>
void add_residual(int rows, int columns, const T* x, const T* residual, const T* bias, T* y);

/// y = gelu(x + bias), in the tanh form of GPT-2: x/2 · (1 + tanh(√(2/π)·(x + 0.044715 x³))). `bias` may be
/// null.
template <class T>
void gelu_forward(int rows, int columns, const T* x, const T* bias, T* y);

/// dx = dy · gelu'(x + bias); dx may be dy.
template <class T>
void gelu_backward(int rows, int columns, const T* x, const T* bias, const T* dy, T* dx);

/// y = silu(gate) · up, with silu(g) = g / (1 + e⁻ᵍ). x is rows × 2·columns, the gate first. `bias`, which
/// has the same layout and may be null, is added first.
template <class T>
void gated_silu_forward(int rows, int columns, const T* x, const T* bias, T* y);

/// dx is rows × 2·columns in the layout of x, and may be x itself.
template <class T>
void gated_silu_backward(int rows, int columns, const T* x, const T* bias, const T* dy, T* dx);

/// Adds `bias` (of `columns`, may be null) to x in place and, if rotary_heads > 0, rotates its first
/// rotary_heads · head_size columns by the angles position · 10000^(−2i / head_size), pairing element i of a
/// head with element i + head_size / 2 (as LLaMA's trainers do). Row r is at position r % sequence. `inverse`
/// rotates back, which gives the gradient. head_size must be a multiple of 32 / sizeof(T).
template <class T>
void bias_rotary(int rows, int columns, int sequence, int head_size, int rotary_heads, bool inverse,
                 const T* bias, T* x);

}  // namespace dtfm::kernels
