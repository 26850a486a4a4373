// Optimizer step (Adam).
#pragma once

#include <cstdint>

namespace dtfm::kernels {

/// Kingma and Ba, "Adam", algorithm 1, with decoupled weight decay (Loshchilov and Hutter).
struct AdamStep {
  float learning_rate = 1e-4F, beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F, weight_decay = 0.1F;
  int step = 1;              // step number, starting at 1; used by the bias corrections
  float gradient_scale = 1;  // factor applied to the gradients first
};

/// Updates `size` parameters (a multiple of 8) in one pass. Both moments and the master copy are float; the
/// weights that the layers use are rounded to T. All arrays must be 16-byte aligned.
template <class T, class G>
void adam(std::int64_t size, const AdamStep& step, const G* gradient, float* master, float* first_moment,
          float* second_moment, T* weight);

}  // namespace dtfm::kernels
