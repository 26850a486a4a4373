#include "kernels/pointwise.hpp"

#include "kernels/platform/pack.cuh"

namespace dtfm::kernels {
namespace {

constexpr int threads = 256;
constexpr float log2_e = 1.44269504F;
constexpr float gelu_scale = 0.797884561F;  // √(2/π)
constexpr float gelu_cubic = 0.044715F;

__device__ inline float sigmoid(float x) {
  return fast_reciprocal(1.0F + fast_exp2(-log2_e * x));
}

// (1 + tanh z) / 2 = sigmoid(2z)
__device__ inline float gelu_sigmoid(float x) {
  return sigmoid(2 * gelu_scale * x * (1.0F + gelu_cubic * x * x));
}

__device__ inline float gelu(float x) {
  return x * gelu_sigmoid(x);
}

__device__ inline float gelu_slope(float x) {
  const float s = gelu_sigmoid(x);
  return s + x * s * (1.0F - s) * 2 * gelu_scale * (1.0F + 3 * gelu_cubic * x * x);
}

/// Offsets of a thread's packs. A thread loads two packs before it computes, so that enough loads are in
/// flight.
template <class T>
struct Place {
  std::int64_t offset[2];
  int column[2];
  bool inside[2];
};

template <class T>
__device__ inline Place<T> place_of_thread(int rows, int columns) {
  const std::int64_t size = static_cast<std::int64_t>(rows) * columns;
  Place<T> place;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const unsigned pack = (blockIdx.x * 2 + static_cast<unsigned>(j)) * threads + threadIdx.x;
    place.offset[j] = static_cast<std::int64_t>(pack) * pack_size<T>;
    place.inside[j] = place.offset[j] < size;
    place.column[j] = static_cast<int>(pack % static_cast<unsigned>(columns / pack_size<T>)) * pack_size<T>;
  }
  return place;
}

template <class T>
unsigned blocks_for(int rows, int columns) {
  const std::int64_t packs = static_cast<std::int64_t>(rows) * columns / pack_size<T>;
  return static_cast<unsigned>(ceil_div<std::int64_t>(packs, 2 * threads));
}

template <class T>
__device__ inline RawPack load_if(bool inside, const T* from) {
  return inside ? load_raw(from) : RawPack{};
}

template <class T>
__device__ inline Floats<T> bias_at(const T* bias, int column) {
  return bias == nullptr ? Floats<T>{} : load_pack(bias + column);
}

template <class T>
__device__ inline Floats<T> bias_beyond(const T* bias, int column, int columns) {
  return bias == nullptr ? Floats<T>{} : load_pack(bias + columns + column);
}

template <class T>
__device__ inline Floats<T> sum_of(Floats<T> a, const Floats<T>& b) {
#pragma unroll
  for (int i = 0; i < pack_size<T>; ++i) a.v[i] += b.v[i];
  return a;
}

template <class T>
__global__ void add_residual_kernel(int rows, int columns, const T* x, const T* residual, const T* bias,
                                    T* y) {
  const Place<T> at = place_of_thread<T>(rows, columns);
  RawPack a[2], b[2];
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    a[j] = load_if(at.inside[j], x + at.offset[j]);
    b[j] = load_if(at.inside[j], residual + at.offset[j]);
  }
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    if (!at.inside[j]) continue;
    Floats<T> sum = unpack<T>(a[j]);
    const Floats<T> other = unpack<T>(b[j]), added = bias_at(bias, at.column[j]);
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i) sum.v[i] += other.v[i] + added.v[i];
    store_pack(y + at.offset[j], sum);
  }
}

template <class T>
__global__ void gelu_forward_kernel(int rows, int columns, const T* x, const T* bias, T* y) {
  const Place<T> at = place_of_thread<T>(rows, columns);
  RawPack a[2];
#pragma unroll
  for (int j = 0; j < 2; ++j) a[j] = load_if(at.inside[j], x + at.offset[j]);
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    if (!at.inside[j]) continue;
    Floats<T> value = unpack<T>(a[j]);
    const Floats<T> added = bias_at(bias, at.column[j]);
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i) value.v[i] = gelu(value.v[i] + added.v[i]);
    store_pack(y + at.offset[j], value);
  }
}

template <class T>
__global__ void gelu_backward_kernel(int rows, int columns, const T* x, const T* bias, const T* dy, T* dx) {
  const Place<T> at = place_of_thread<T>(rows, columns);
  RawPack a[2], b[2];
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    a[j] = load_if(at.inside[j], x + at.offset[j]);
    b[j] = load_if(at.inside[j], dy + at.offset[j]);
  }
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    if (!at.inside[j]) continue;
    const Floats<T> value = unpack<T>(a[j]), added = bias_at(bias, at.column[j]);
    Floats<T> gradient = unpack<T>(b[j]);
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i) gradient.v[i] *= gelu_slope(value.v[i] + added.v[i]);
    store_pack(dx + at.offset[j], gradient);
  }
}

/// Offset of the gate for the number at `offset` of the output; the other factor is `columns` further on.
template <class T>
__device__ inline std::int64_t gate_offset(const Place<T>& at, int j) {
  return 2 * at.offset[j] - at.column[j];
}

template <class T>
__global__ void gated_silu_forward_kernel(int rows, int columns, const T* x, const T* bias, T* y) {
  const Place<T> at = place_of_thread<T>(rows, columns);
  RawPack gate[2], up[2];
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    gate[j] = load_if(at.inside[j], x + gate_offset(at, j));
    up[j] = load_if(at.inside[j], x + gate_offset(at, j) + columns);
  }
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    if (!at.inside[j]) continue;
    const Floats<T> g = sum_of(unpack<T>(gate[j]), bias_at(bias, at.column[j]));
    Floats<T> u = sum_of(unpack<T>(up[j]), bias_beyond(bias, at.column[j], columns));
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i) u.v[i] *= g.v[i] * sigmoid(g.v[i]);
    store_pack(y + at.offset[j], u);
  }
}

template <class T>
__global__ void gated_silu_backward_kernel(int rows, int columns, const T* x, const T* bias, const T* dy,
                                           T* dx) {
  const Place<T> at = place_of_thread<T>(rows, columns);
  RawPack gate[2], up[2], gradient[2];
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    gate[j] = load_if(at.inside[j], x + gate_offset(at, j));
    up[j] = load_if(at.inside[j], x + gate_offset(at, j) + columns);
    gradient[j] = load_if(at.inside[j], dy + at.offset[j]);
  }
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    if (!at.inside[j]) continue;
    const Floats<T> g = sum_of(unpack<T>(gate[j]), bias_at(bias, at.column[j]));
    const Floats<T> u = sum_of(unpack<T>(up[j]), bias_beyond(bias, at.column[j], columns)),
                    d = unpack<T>(gradient[j]);
    Floats<T> dg, du;
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i) {
      const float s = sigmoid(g.v[i]);
      du.v[i] = d.v[i] * g.v[i] * s;
      dg.v[i] = d.v[i] * u.v[i] * s * (1.0F + g.v[i] * (1.0F - s));
    }
    store_pack(dx + gate_offset(at, j), dg);
    store_pack(dx + gate_offset(at, j) + columns, du);
  }
}

constexpr int heads_of_thread = 4;  // they share the sines and cosines

/// For some heads of a row, a thread handles one pack of the first half and the pack that it is paired with.
template <class T>
__global__ void bias_rotary_kernel(int rows, int columns, int sequence, int head_size, int rotary_heads,
                                   bool inverse, const T* bias, T* x) {
  constexpr int n = pack_size<T>;
  const int half = head_size / 2, heads = columns / head_size;
  const int groups = ceil_div(heads, heads_of_thread), threads_of_row = groups * (half / n);
  const int row = static_cast<int>(launch_thread() / static_cast<unsigned>(threads_of_row));
  const int in_row = static_cast<int>(launch_thread() % static_cast<unsigned>(threads_of_row));
  if (row >= rows) return;
  const int first_head = in_row / (half / n) * heads_of_thread, i0 = in_row % (half / n) * n;
  T* const place = x + static_cast<std::int64_t>(row) * columns + first_head * head_size + i0;
  RawPack first[heads_of_thread], second[heads_of_thread];
#pragma unroll
  for (int h = 0; h < heads_of_thread; ++h) {
    first[h] = load_if(first_head + h < heads, place + h * head_size);
    second[h] = load_if(first_head + h < heads, place + h * head_size + half);
  }
  float sine[n] = {}, cosine[n];
#pragma unroll
  for (int i = 0; i < n; ++i) {
    constexpr float log2_base = 13.2877124F;  // log₂ 10000
    cosine[i] = 1;
    if (first_head >= rotary_heads) continue;
    const float frequency = exp2f(-log2_base * static_cast<float>(i0 + i) / static_cast<float>(half));
    sincosf(static_cast<float>(row % sequence) * frequency, &sine[i], &cosine[i]);
    if (inverse) sine[i] = -sine[i];
  }
#pragma unroll
  for (int h = 0; h < heads_of_thread; ++h) {
    const int head = first_head + h;
    if (head >= heads) continue;
    Floats<T> a = unpack<T>(first[h]), b = unpack<T>(second[h]);
    const Floats<T> bias_a = bias_at(bias, head * head_size + i0),
                    bias_b = bias_at(bias, head * head_size + i0 + half);
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const float u = a.v[i] + bias_a.v[i], v = b.v[i] + bias_b.v[i];
      const bool turned = head < rotary_heads;
      a.v[i] = turned ? u * cosine[i] - v * sine[i] : u;
      b.v[i] = turned ? v * cosine[i] + u * sine[i] : v;
    }
    store_pack(place + h * head_size, a);
    store_pack(place + h * head_size + half, b);
  }
}

}  // namespace

template <class T>
void add_residual(int rows, int columns, const T* x, const T* residual, const T* bias, T* y) {
  launch(add_residual_kernel<T>, {blocks_for<T>(rows, columns)}, threads, 0, rows, columns, x, residual, bias,
         y);
}

template <class T>
void gelu_forward(int rows, int columns, const T* x, const T* bias, T* y) {
  launch(gelu_forward_kernel<T>, {blocks_for<T>(rows, columns)}, threads, 0, rows, columns, x, bias, y);
}

template <class T>
void gelu_backward(int rows, int columns, const T* x, const T* bias, const T* dy, T* dx) {
  launch(gelu_backward_kernel<T>, {blocks_for<T>(rows, columns)}, threads, 0, rows, columns, x, bias, dy, dx);
}

template <class T>
void gated_silu_forward(int rows, int columns, const T* x, const T* bias, T* y) {
  launch(gated_silu_forward_kernel<T>, {blocks_for<T>(rows, columns)}, threads, 0, rows, columns, x, bias, y);
}

template <class T>
void gated_silu_backward(int rows, int columns, const T* x, const T* bias, const T* dy, T* dx) {
  launch(gated_silu_backward_kernel<T>, {blocks_for<T>(rows, columns)}, threads, 0, rows, columns, x, bias,
         dy, dx);
}

template <class T>
void bias_rotary(int rows, int columns, int sequence, int head_size, int rotary_heads, bool inverse,
                 const T* bias, T* x) {
  const std::int64_t threads_of_row =
      ceil_div(columns / head_size, heads_of_thread) * (head_size / 2 / pack_size<T>);
  const auto blocks = static_cast<unsigned>(ceil_div<std::int64_t>(rows * threads_of_row, threads));
  launch(bias_rotary_kernel<T>, {blocks}, threads, 0, rows, columns, sequence, head_size, rotary_heads,
         inverse, bias, x);
}

#define DTFM_INSTANTIATE(T)                                                         \
  template void add_residual<T>(int, int, const T*, const T*, const T*, T*);        \
  template void gelu_forward<T>(int, int, const T*, const T*, T*);                  \
  template void gelu_backward<T>(int, int, const T*, const T*, const T*, T*);       \
  template void gated_silu_forward<T>(int, int, const T*, const T*, T*);            \
  template void gated_silu_backward<T>(int, int, const T*, const T*, const T*, T*); \
  template void bias_rotary<T>(int, int, int, int, int, bool, const T*, T*);
DTFM_INSTANTIATE(float)
DTFM_INSTANTIATE(Half)
DTFM_INSTANTIATE(Bfloat16)

}  // namespace dtfm::kernels
