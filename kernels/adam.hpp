// The optimizer's step.
#pragma once

#include <cstdint>

namespace dtfm::kernels {

/// Kingma and Ba, "Adam", algorithm 1, with decoupled weight decay (Loshchilov and Hutter).
struct AdamStep {
  float learning_rate = 1e-4F, beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F, weight_decay = 0.1F;
  int step = 1;              // from 1; for the bias corrections
  float gradient_scale = 1;  // gradients are multiplied by it first
};

/// One pass over `size` parameters, a multiple of 8: first and second moments and the master copy are float,
/// the weights that the layers use are written rounded to T. All arrays are 16-byte aligned.
template <class T, class G>
void adam(std::int64_t size, const AdamStep& step, const G* gradient, float* master, float* first_moment,
          float* second_moment, T* weight);

}  // namespace dtfm::kernels
