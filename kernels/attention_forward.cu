#include "kernels/attention.hpp"
#include "kernels/attention_softmax.cuh"
#include "kernels/attention_tile.cuh"
#include "kernels/attention_warpgroup.hpp"

namespace dtfm::kernels {
namespace {

constexpr int warps = 4;
constexpr int threads = warps * warp_size;

/// Tile sizes of a block. With two row tiles per warp, each key is read from shared memory half as often.
/// float, which is used in checks only, takes the sizes that fit on every device.
template <class T>
struct Shape {
  static constexpr int row_tiles = sizeof(T) == 2 ? 2 : 1;
  static constexpr int warp_rows = 16 * row_tiles, queries = warps * warp_rows,
                       keys = sizeof(T) == 2 ? 64 : 32;
};

template <class T, int D>
using RowsOf = Rows<D, Shape<T>::row_tiles>;

template <class T, int D>
constexpr std::size_t shared_bytes() {
  return sizeof(T) * static_cast<std::size_t>(D * (Shape<T>::queries + 2 * Shape<T>::keys));
}

template <class T, int D>
__device__ void scores_of(float (&s)[Shape<T>::row_tiles][Shape<T>::keys / 8][4], Tile<T, D> q, Tile<T, D> k,
                          int first_row) {
  const LanePlace at = lane_place();
#pragma unroll
  for (auto& rows : s)
#pragma unroll
    for (auto& fragment : rows) fragment[0] = fragment[1] = fragment[2] = fragment[3] = 0;
#pragma unroll
  for (int d = 0; d < D; d += 16) {
    Pair<T> a[Shape<T>::row_tiles][4];
#pragma unroll
    for (int m = 0; m < Shape<T>::row_tiles; ++m) load_a(a[m], q, at, first_row + 16 * m, d);
#pragma unroll
    for (int n = 0; n < Shape<T>::keys; n += 16) {
      Pair<T> b[4];
      load_b(b, k, at, n, d);
#pragma unroll
      for (int m = 0; m < Shape<T>::row_tiles; ++m) multiply_both<T>(s[m][n / 8], s[m][n / 8 + 1], a[m], b);
    }
  }
}

template <class T, int D>
__device__ void add_values(const float (&p)[Shape<T>::row_tiles][Shape<T>::keys / 8][4], RowsOf<T, D>& rows,
                           Tile<T, D> v) {
  const LanePlace at = lane_place();
#pragma unroll
  for (int n = 0; n < Shape<T>::keys; n += 16) {
    Pair<T> a[Shape<T>::row_tiles][4];
#pragma unroll
    for (int m = 0; m < Shape<T>::row_tiles; ++m) as_operand<T>(a[m], p[m][n / 8], p[m][n / 8 + 1]);
#pragma unroll
    for (int d = 0; d < D; d += 16) {
      Pair<T> b[4];
      load_b_transposed(b, v, at, n, d);
#pragma unroll
      for (int m = 0; m < Shape<T>::row_tiles; ++m)
        multiply_both<T>(rows.out[m][d / 8], rows.out[m][d / 8 + 1], a[m], b);
    }
  }
}

/// Divides by the sums and writes the warp's rows, through the warp's own rows of the query tile.
template <class T, int D>
__device__ void finish_rows(RowsOf<T, D>& rows, Tile<T, D> tile, int first_row, T* out, int stride,
                            float* log_sum_exp, int rows_left) {
  float inverse[Shape<T>::row_tiles][2];
  finish_sums(rows, inverse, first_row, log_sum_exp, rows_left);
  const LanePlace at = lane_place();
#pragma unroll
  for (int m = 0; m < Shape<T>::row_tiles; ++m)
#pragma unroll
    for (int d = 0; d < D / 8; ++d)
      store_fragment(tile, at, first_row + 16 * m, 8 * d, rows.out[m][d], inverse[m][0], inverse[m][1]);
  __syncwarp();
  store_rows<Shape<T>::warp_rows, D>(tile, first_row, out, stride, rows_left);
}

/// Block (x, head, sequence of the batch) handles one tile of queries. The last tiles come first, because
/// causal masking leaves them the most keys.
template <class T, int D>
__global__ void __launch_bounds__(threads) attention_kernel(AttentionForward<T> in, float scale) {
  constexpr int queries = Shape<T>::queries, keys = Shape<T>::keys;
  T* const shared = shared_memory<T>();
  const Tile<T, D> q{shared}, k{shared + queries * D}, v{shared + (queries + keys) * D};
  const int n = in.shape.sequence, heads = in.shape.heads, head = static_cast<int>(blockIdx.y);
  const int first_query = (block_count() - 1 - block_index()) * queries;
  const int first_row = thread_index() / warp_size * Shape<T>::warp_rows;
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.z) * n;
  const std::int64_t kv_offset = token * in.row_stride + head / (heads / in.shape.kv_heads) * D;
  const T* const k_head = in.k + kv_offset;
  const T* const v_head = in.v + kv_offset;
  const auto start = [&](Tile<T, D> tile, const T* from, int key) {
    load_tile<keys, threads>(tile, from + static_cast<std::int64_t>(key) * in.row_stride, in.row_stride,
                             n - key);
    commit_copies();
  };

  load_tile<queries, threads>(q, in.q + (token + first_query) * in.row_stride + head * D, in.row_stride,
                              n - first_query);
  start(k, k_head, 0);
  RowsOf<T, D> rows;
  const int end = in.shape.causal && first_query + queries < n ? first_query + queries : n;
  for (int key = 0; key < end; key += keys) {
    wait_copies<0>();
    __syncthreads();  // these keys have arrived; the previous values are no longer needed
    start(v, v_head, key);
    float s[Shape<T>::row_tiles][keys / 8][4];
    scores_of<T, D>(s, q, k, first_row);
    if (key + keys > n || (in.shape.causal && key + keys > first_query + 1))
      mask_scores(s, first_query + first_row, key, n, in.shape.causal);
    wait_copies<0>();
    __syncthreads();  // the values have arrived; the keys are no longer needed
    if (key + keys < end) start(k, k_head, key + keys);
    float correction[Shape<T>::row_tiles][2];
    online_softmax(s, rows, correction, scale);
    rescale(rows, correction);
    add_values(s, rows, v);
  }
  finish_rows(rows, q, first_row, in.out + (token + first_query) * heads * D + head * D, heads * D,
              in.log_sum_exp + (static_cast<std::int64_t>(blockIdx.z) * heads + head) * n + first_query,
              n - first_query);
}

template <class T, int D>
void launch_forward(const AttentionForward<T>& in) {
  const AttentionShape& s = in.shape;
  const Grid grid{static_cast<unsigned>(ceil_div(s.sequence, Shape<T>::queries)),
                  static_cast<unsigned>(s.heads), static_cast<unsigned>(s.batch)};
  launch(attention_kernel<T, D>, grid, threads, shared_bytes<T, D>(), in,
         log2_e / sqrtf(static_cast<float>(D)));
}

}  // namespace

double attention_flops(const AttentionShape& shape) {
  const double square = 4.0 * shape.batch * shape.heads * shape.head_size * shape.sequence * shape.sequence;
  return shape.causal ? square / 2 : square;
}

template <class T>
void attention_forward(const AttentionForward<T>& in, std::size_t shared_bytes) {
  if (attention_forward_by_warpgroups(in, shared_bytes != 0 ? shared_bytes : device_limits().shared_bytes))
    return;
  if (in.shape.head_size == 64) return launch_forward<T, 64>(in);
  if (in.shape.head_size == 128) return launch_forward<T, 128>(in);
  throw DeviceError("attention: head size " + std::to_string(in.shape.head_size) +
                    " is not supported; use 64 or 128");
}

template void attention_forward<float>(const AttentionForward<float>&, std::size_t);
template void attention_forward<Half>(const AttentionForward<Half>&, std::size_t);
template void attention_forward<Bfloat16>(const AttentionForward<Bfloat16>&, std::size_t);

}  // namespace dtfm::kernels
