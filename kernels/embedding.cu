#include "kernels/embedding.hpp"

#include "kernels/platform/pack.cuh"

namespace dtfm::kernels {
namespace {

constexpr int threads = 256;

constexpr int rows_of_thread = 4;  // so that several loads are in flight

/// A thread handles one pack in each of `rows_of_thread` rows, which are `row_step` apart.
template <class T>
__global__ void forward(int rows, int columns, int sequence, int row_step, const int* ids, const T* tokens,
                        const T* positions, T* y) {
  const unsigned packs_of_row = static_cast<unsigned>(columns / pack_size<T>);
  const int group = static_cast<int>(launch_thread() / packs_of_row);
  const int first = group % row_step + group / row_step * rows_of_thread * row_step;
  const int column = static_cast<int>(launch_thread() % packs_of_row) * pack_size<T>;
  RawPack token[rows_of_thread], position[rows_of_thread];
#pragma unroll
  for (int i = 0; i < rows_of_thread; ++i) {
    const int row = first + i * row_step;
    token[i] = position[i] = {};
    if (row >= rows) continue;
    if (positions != nullptr)
      position[i] = load_raw(positions + static_cast<std::int64_t>(row % sequence) * columns + column);
    token[i] = load_raw(tokens + static_cast<std::int64_t>(ids[row]) * columns + column);
  }
#pragma unroll
  for (int i = 0; i < rows_of_thread; ++i) {
    const int row = first + i * row_step;
    if (row >= rows) continue;
    Floats<T> sum = unpack<T>(token[i]);
    const Floats<T> added = unpack<T>(position[i]);
#pragma unroll
    for (int j = 0; j < pack_size<T>; ++j) sum.v[j] += added.v[j];
    store_pack(y + static_cast<std::int64_t>(row) * columns + column, sum);
  }
}

/// A thread handles one pack of one position, for all sequences of the batch.
template <class T>
__global__ void backward(int rows, int columns, int sequence, const int* ids, const T* dy,
                         float* token_gradient, float* position_gradient, bool accumulate_positions) {
  const unsigned packs_of_row = static_cast<unsigned>(columns / pack_size<T>);
  const int position = static_cast<int>(launch_thread() / packs_of_row);
  const int column = static_cast<int>(launch_thread() % packs_of_row) * pack_size<T>;
  if (position >= sequence) return;
  const std::int64_t place = static_cast<std::int64_t>(position) * columns + column;
  Floats<T> sum{};
  for (int row = position; row < rows; row += sequence) {
    const Floats<T> gradient = load_pack(dy + static_cast<std::int64_t>(row) * columns + column);
    float* to = token_gradient + static_cast<std::int64_t>(ids[row]) * columns + column;
#pragma unroll
    for (int i = 0; i < pack_size<T>; i += 2) atomic_add_pair(to + i, gradient.v[i], gradient.v[i + 1]);
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i) sum.v[i] += gradient.v[i];
  }
  if (position_gradient == nullptr) return;
  if (accumulate_positions) {
    const Floats<T> before = load_floats<T>(position_gradient + place);
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i) sum.v[i] += before.v[i];
  }
  store_floats<T>(position_gradient + place, sum);
}

template <class T>
unsigned blocks_for(std::int64_t size) {
  return static_cast<unsigned>(ceil_div<std::int64_t>(size, threads * pack_size<T>));
}

}  // namespace

template <class T>
void embedding_forward(int rows, int columns, int sequence, const int* ids, const T* tokens,
                       const T* positions, T* y) {
  // A thread handles rows of the same position, which is then read only once for them.
  const int row_step = positions != nullptr && rows > sequence ? sequence : 1;
  const int groups = ceil_div(rows, rows_of_thread * row_step) * row_step;
  launch(forward<T>, {blocks_for<T>(static_cast<std::int64_t>(groups) * columns)}, threads, 0, rows, columns,
         sequence, row_step, ids, tokens, positions, y);
}

template <class T>
void embedding_backward(int rows, int columns, int sequence, const int* ids, const T* dy,
                        float* token_gradient, float* position_gradient, bool accumulate_positions) {
  launch(backward<T>, {blocks_for<T>(static_cast<std::int64_t>(sequence) * columns)}, threads, 0, rows,
         columns, sequence, ids, dy, token_gradient, position_gradient, accumulate_positions);
}

#define DTFM_INSTANTIATE(T)                                                              \
  template void embedding_forward<T>(int, int, int, const int*, const T*, const T*, T*); \
  template void embedding_backward<T>(int, int, int, const int*, const T*, float*, float*, bool);
DTFM_INSTANTIATE(float)
DTFM_INSTANTIATE(Half)
DTFM_INSTANTIATE(Bfloat16)

}  // namespace dtfm::kernels
