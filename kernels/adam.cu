#include "kernels/adam.hpp"

#include <cmath>

#include "kernels/platform/pack.cuh"

namespace dtfm::kernels {
namespace {

constexpr int threads = 256;
constexpr int n = 8;  // numbers of a thread: one or two 16-byte accesses per array

struct Coefficients {
  float decay, rate, beta1, beta2, epsilon, first_correction, second_correction, gradient_scale;
};

template <class T>
__device__ inline void load_eight(const T* from, float (&to)[n]) {
#pragma unroll
  for (int i = 0; i < n; i += pack_size<T>) {
    const Floats<T> part = load_pack(from + i);
#pragma unroll
    for (int j = 0; j < pack_size<T>; ++j) to[i + j] = part.v[j];
  }
}

template <class T>
__device__ inline void store_eight(T* to, const float (&from)[n]) {
#pragma unroll
  for (int i = 0; i < n; i += pack_size<T>) {
    Floats<T> part;
#pragma unroll
    for (int j = 0; j < pack_size<T>; ++j) part.v[j] = from[i + j];
    store_pack(to + i, part);
  }
}

template <class T, class G>
__global__ void adam_kernel(std::int64_t size, Coefficients c, const G* gradient, float* master, float* first,
                            float* second, T* weight) {
  const std::int64_t offset = (static_cast<std::int64_t>(block_index()) * threads + thread_index()) * n;
  if (offset >= size) return;
  float g[n], p[n], m[n], v[n];
  load_eight(gradient + offset, g);
  load_eight(master + offset, p);
  load_eight(first + offset, m);
  load_eight(second + offset, v);
#pragma unroll
  for (int i = 0; i < n; ++i) {
    const float scaled = g[i] * c.gradient_scale;
    m[i] = c.beta1 * m[i] + (1 - c.beta1) * scaled;
    v[i] = c.beta2 * v[i] + (1 - c.beta2) * scaled * scaled;
    p[i] = p[i] * c.decay -
           c.rate * (m[i] * c.first_correction) / (sqrtf(v[i] * c.second_correction) + c.epsilon);
  }
  store_eight(master + offset, p);
  store_eight(first + offset, m);
  store_eight(second + offset, v);
  store_eight(weight + offset, p);
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
  const auto blocks = static_cast<unsigned>(divided_up<std::int64_t>(size, threads * n));
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
