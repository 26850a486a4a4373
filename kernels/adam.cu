#include "kernels/adam.hpp"

#include <cmath>

#include "kernels/platform/pack.cuh"

namespace dtfm::kernels {
namespace {

constexpr int threads = 256;
constexpr int groups = 2;  // packs of four numbers per thread

struct Coefficients {
  float decay, rate, beta1, beta2, epsilon, first_correction, second_correction, gradient_scale;
};

/// Four adjacent numbers, loaded and stored by one access. The groups of one thread are a block width apart,
/// so that each access of a warp is coalesced, both of floats and of 16-bit numbers.
template <class T>
struct alignas(4 * sizeof(T)) Four {
  T v[4];
};

template <class T, class G>
__global__ void adam_kernel(std::int64_t size, Coefficients c, const G* gradient, float* master, float* first,
                            float* second, T* weight) {
  const std::int64_t offset = static_cast<std::int64_t>(block_index()) * threads * groups + thread_index();
  Four<G> g[groups]{};
  Four<float> p[groups]{}, m[groups]{}, v[groups]{};
#pragma unroll
  for (int j = 0; j < groups; ++j) {
    const std::int64_t at = offset + j * threads;
    if (4 * at >= size) continue;
    g[j] = reinterpret_cast<const Four<G>*>(gradient)[at];
    p[j] = reinterpret_cast<const Four<float>*>(master)[at];
    m[j] = reinterpret_cast<const Four<float>*>(first)[at];
    v[j] = reinterpret_cast<const Four<float>*>(second)[at];
  }
#pragma unroll
  for (int j = 0; j < groups; ++j) {
    const std::int64_t at = offset + j * threads;
    if (4 * at >= size) continue;
    Four<T> rounded;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float scaled = to_float(g[j].v[i]) * c.gradient_scale;
      float &pi = p[j].v[i], &mi = m[j].v[i], &vi = v[j].v[i];
      mi = c.beta1 * mi + (1 - c.beta1) * scaled;
      vi = c.beta2 * vi + (1 - c.beta2) * scaled * scaled;
      pi = pi * c.decay - c.rate * (mi * c.first_correction) / (sqrtf(vi * c.second_correction) + c.epsilon);
      rounded.v[i] = from_float<T>(pi);
    }
    reinterpret_cast<Four<float>*>(master)[at] = p[j];
    reinterpret_cast<Four<float>*>(first)[at] = m[j];
    reinterpret_cast<Four<float>*>(second)[at] = v[j];
    reinterpret_cast<Four<T>*>(weight)[at] = rounded;
  }
}

}  // namespace

template <class T, class G>
void adam(std::int64_t size, const AdamStep& step, const G* gradient, float* master, float* first_moment,
          float* second_moment, T* weight) {
  const auto correction = [&](float beta) {
    return static_cast<float>(1 / (1 - std::pow(static_cast<double>(beta), step.step)));
  };
  const Coefficients c{1 - step.learning_rate * step.weight_decay,
                       step.learning_rate,
                       step.beta1,
                       step.beta2,
                       step.epsilon,
                       correction(step.beta1),
                       correction(step.beta2),
                       step.gradient_scale};
  const auto blocks = static_cast<unsigned>(ceil_div<std::int64_t>(size, threads * groups * 4));
  launch(adam_kernel<T, G>, {blocks}, threads, 0, size, c, gradient, master, first_moment, second_moment,
         weight);
}

#define DTFM_INSTANTIATE(T, G) \
  template void adam<T, G>(std::int64_t, const AdamStep&, const G*, float*, float*, float*, T*);
DTFM_INSTANTIATE(float, float)
DTFM_INSTANTIATE(Half, Half)
DTFM_INSTANTIATE(Half, float)
DTFM_INSTANTIATE(Bfloat16, Bfloat16)
DTFM_INSTANTIATE(Bfloat16, float)

}  // namespace dtfm::kernels
