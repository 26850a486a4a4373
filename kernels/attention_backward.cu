#include "kernels/attention.hpp"
#include "kernels/attention_softmax.cuh"
#include "kernels/attention_tile.cuh"
#include "kernels/attention_warpgroup.hpp"

namespace dtfm::kernels {
namespace {

/// A block holds `warps` · 16 keys, 16 per warp, and iterates over tiles of `queries`.
template <class T, int D, int warps, int queries>
struct Shape {
  static constexpr int threads = warps * warp_size, keys = 16 * warps, q_tiles = queries / 16;
  static constexpr int column_parts =
      warps / q_tiles;  // gradient of the queries: q_tiles × column_parts warps
  static constexpr int part_columns = D / column_parts;
  static_assert(warps % q_tiles == 0 && part_columns % 16 == 0);
  static constexpr std::size_t shared_bytes =
      sizeof(T) * (2 * keys * D + 2 * queries * D + keys * queries) + 2 * sizeof(float) * queries;
};

template <class T, int D, int warps, int queries>
struct Tiles {
  using S = Shape<T, D, warps, queries>;
  Tile<T, D> k, v, q, dout;
  Tile<T, queries> ds;  // gradient of the scores, one row per key
  float* log_sums;      // of the queries: log₂ Σ 2^…, and delta = Σ dout · out
  float* deltas;

  __device__ explicit Tiles(T* shared)
      : k{shared},
        v{k.data + S::keys * D},
        q{v.data + S::keys * D},
        dout{q.data + queries * D},
        ds{dout.data + queries * D},
        log_sums(reinterpret_cast<float*>(ds.data + S::keys * queries)),
        deltas(log_sums + queries) {}
};

/// Sets out (16 × columns) to rows first_row … of a, times b transposed. Both a and b have D numbers per row.
template <int D, int columns, class T>
__device__ void multiply_rows(float (&out)[columns / 8][4], Tile<T, D> a_tile, int first_row,
                              Tile<T, D> b_tile) {
  const LanePlace at = lane_place();
  clear(out);
#pragma unroll
  for (int d = 0; d < D; d += 16) {
    Pair<T> a[4];
    load_a(a, a_tile, at, first_row, d);
#pragma unroll
    for (int n = 0; n < columns; n += 16) {
      Pair<T> b[4];
      load_b(b, b_tile, at, n, d);
      multiply_both<T>(out[n / 8], out[n / 8 + 1], a, b);
    }
  }
}

/// sum (16 × D) += p (16 × queries) · tile (queries × D).
template <int D, int queries, class T>
__device__ void add_product(float (&sum)[D / 8][4], const float (&p)[queries / 8][4], Tile<T, D> tile) {
  const LanePlace at = lane_place();
#pragma unroll
  for (int n = 0; n < queries; n += 16) {
    Pair<T> a[4];
    as_operand<T>(a, p[n / 8], p[n / 8 + 1]);
#pragma unroll
    for (int d = 0; d < D; d += 16) {
      Pair<T> b[4];
      load_b_transposed(b, tile, at, n, d);
      multiply_both<T>(sum[d / 8], sum[d / 8 + 1], a, b);
    }
  }
}

/// Adds the contribution of the current tile of queries to the gradients of the warp's keys and values, and
/// stores the warp's rows of ds in their tile.
template <class T, int D, int warps, int queries>
__device__ void add_key_gradients(const Tiles<T, D, warps, queries>& tiles, float (&dk)[D / 8][4],
                                  float (&dv)[D / 8][4], int first_row, float scale, bool masked,
                                  int key_minus_query, int keys_left, bool causal) {
  float s[queries / 8][4], ds[queries / 8][4];
  multiply_rows<D, queries>(s, tiles.k, first_row, tiles.q);
  multiply_rows<D, queries>(ds, tiles.v, first_row, tiles.dout);
  probabilities(s, tiles.log_sums, scale, masked, key_minus_query, keys_left, causal);
  score_gradients(s, ds, tiles.deltas);
  add_product<D, queries>(dv, s, tiles.dout);
  const LanePlace at = lane_place();
#pragma unroll
  for (int j = 0; j < queries / 8; ++j) store_fragment(tiles.ds, at, first_row, 8 * j, ds[j], 1, 1);
  add_product<D, queries>(dk, ds, tiles.q);
}

/// Adds the warp's part of dsᵀ (queries × keys) · k to the gradient of the queries, one row per token.
template <class T, int D, int warps, int queries>
__device__ void add_query_gradient(const Tiles<T, D, warps, queries>& tiles, float* dq, int stride,
                                   int rows_left) {
  using S = Shape<T, D, warps, queries>;
  const LanePlace at = lane_place();
  const int warp = opaque(thread_index() / warp_size);
  const int row = warp % S::q_tiles * 16, column = warp / S::q_tiles * S::part_columns;
  float sum[S::part_columns / 8][4];
  clear(sum);
#pragma unroll
  for (int key = 0; key < S::keys; key += 16) {
    Pair<T> a[4];
    load_a_transposed(a, tiles.ds, at, key, row);
#pragma unroll
    for (int d = 0; d < S::part_columns; d += 16) {
      Pair<T> b[4];
      load_b_transposed(b, tiles.k, at, key, column + d);
      multiply_both<T>(sum[d / 8], sum[d / 8 + 1], a, b);
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = row + at.g + 8 * half;
    if (r >= rows_left) continue;
    float* to = dq + static_cast<std::int64_t>(r) * stride + column + 2 * at.t;
#pragma unroll
    for (int d = 0; d < S::part_columns / 8; ++d)
      atomic_add_pair(to + 8 * d, sum[d][2 * half], sum[d][2 * half + 1]);
  }
}

/// Scales and rounds the warp's sums, and writes them out through the warp's rows of the tile.
template <class T, int D>
__device__ void write_gradient(const float (&sum)[D / 8][4], Tile<T, D> tile, int first_row, float scale,
                               T* to, int stride, int rows_left) {
  const LanePlace at = lane_place();
#pragma unroll
  for (int d = 0; d < D / 8; ++d) store_fragment(tile, at, first_row, 8 * d, sum[d], scale, scale);
  __syncwarp();
  store_rows<16, D>(tile, first_row, to, stride, rows_left);
}

/// Block (x, key and value head, sequence of the batch) handles one tile of keys and, for each query head of
/// the group, all tiles of queries that attend to them.
template <class T, int D, int warps, int queries>
__global__ void __launch_bounds__(warps* warp_size)
    attention_backward_kernel(BackwardArguments<T> arguments) {
  using S = Shape<T, D, warps, queries>;
  const AttentionForward<T>& in = arguments.in.forward;
  const Tiles<T, D, warps, queries> tiles(shared_memory<T>());
  const int n = in.shape.sequence, heads = in.shape.heads, stride = in.row_stride, width = heads * D;
  const int first_key = block_index() * S::keys, first_row = thread_index() / warp_size * 16;
  const int group = heads / in.shape.kv_heads, first_head = static_cast<int>(blockIdx.y) * group;
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.z) * n;
  const std::int64_t kv_offset = (token + first_key) * stride + static_cast<std::int64_t>(blockIdx.y) * D;
  const int first_tile = in.shape.causal ? first_key / queries : 0;
  const int tiles_of_head = ceil_div(n, queries) - first_tile, steps = group * tiles_of_head;
  const float scale_log2 = arguments.scale * log2_e;

  const auto start = [&](int step) {
    const int head = first_head + step / tiles_of_head, query = (first_tile + step % tiles_of_head) * queries;
    load_tile<queries, S::threads>(tiles.q, in.q + (token + query) * stride + head * D, stride, n - query);
    load_tile<queries, S::threads>(tiles.dout, arguments.in.dout + (token + query) * width + head * D, width,
                                   n - query);
    commit_copies();
  };
  const auto sums_of = [&](int step) -> FloatPair {
    const int head = first_head + step / tiles_of_head, query = (first_tile + step % tiles_of_head) * queries;
    const int thread = thread_index();
    if (thread >= queries || query + thread >= n) return {INFINITY, 0};
    const std::int64_t row = (static_cast<std::int64_t>(blockIdx.z) * heads + head) * n + query + thread;
    return {in.log_sum_exp[row] * log2_e, arguments.delta[row]};
  };
  const auto keep_sums = [&](FloatPair sums) {
    if (thread_index() >= queries) return;
    tiles.log_sums[thread_index()] = sums.x;
    tiles.deltas[thread_index()] = sums.y;
  };

  load_tile<S::keys, S::threads>(tiles.k, in.k + kv_offset, stride, n - first_key);
  load_tile<S::keys, S::threads>(tiles.v, in.v + kv_offset, stride, n - first_key);
  start(0);
  keep_sums(sums_of(0));
  float dk[D / 8][4], dv[D / 8][4];
  clear(dk);
  clear(dv);
  for (int step = 0; step < steps; ++step) {
    const int head = first_head + step / tiles_of_head, query = (first_tile + step % tiles_of_head) * queries;
    wait_copies<0>();
    __syncthreads();  // queries, dout and sums have arrived; the previous ds is no longer needed
    const bool masked = first_key + S::keys > n || (in.shape.causal && first_key + S::keys > query + 1);
    add_key_gradients(tiles, dk, dv, first_row, scale_log2, masked, first_key + first_row - query,
                      n - first_key - first_row, in.shape.causal);
    __syncthreads();  // ds is complete; queries and dout are no longer needed
    if (step + 1 < steps) start(step + 1);
    const FloatPair sums = step + 1 < steps ? sums_of(step + 1) : FloatPair{INFINITY, 0};
    add_query_gradient(tiles, arguments.dq_sum + (token + query) * width + head * D, width, n - query);
    keep_sums(sums);
  }
  __syncthreads();  // the keys are no longer needed: the gradients reuse their tiles
  write_gradient<T, D>(dk, tiles.k, first_row, arguments.scale, arguments.in.dk + kv_offset, stride,
                       n - first_key);
  write_gradient<T, D>(dv, tiles.v, first_row, 1, arguments.in.dv + kv_offset, stride, n - first_key);
}

constexpr int pointwise_threads = 256;

/// Computes delta = Σ dout · out over each head of each token. head_size / pack adjacent lanes share a head.
template <class T, int D>
__global__ void delta_kernel(int rows, int sequence, int heads, const T* out, const T* dout, float* delta) {
  constexpr int lanes = D / pack_size<T>;
  const std::int64_t offset = static_cast<std::int64_t>(launch_thread()) * pack_size<T>;
  const int row = static_cast<int>(launch_thread() / static_cast<unsigned>(lanes));  // token · heads + head
  float sum = 0;
  if (row < rows) {
    const Floats<T> a = load_pack(out + offset), b = load_pack(dout + offset);
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i) sum += a.v[i] * b.v[i];
  }
#pragma unroll
  for (int flip = lanes / 2; flip > 0; flip /= 2) sum += __shfl_xor_sync(whole_warp, sum, flip);
  if (row >= rows || thread_index() % lanes != 0) return;
  const int token = row / heads;
  delta[static_cast<std::int64_t>(token / sequence * heads + row % heads) * sequence + token % sequence] =
      sum;
}

/// dq = scale · sums, rounded, from rows of `width` to rows of `stride`.
template <class T>
__global__ void round_kernel(int rows, int width, int stride, float scale, const float* sums, T* dq) {
  const unsigned packs_of_row = static_cast<unsigned>(width / pack_size<T>);
  const int row = static_cast<int>(launch_thread() / packs_of_row);
  const int column = static_cast<int>(launch_thread() % packs_of_row) * pack_size<T>;
  if (row >= rows) return;
  Floats<T> value = load_floats<T>(sums + static_cast<std::int64_t>(row) * width + column);
#pragma unroll
  for (float& v : value.v) v *= scale;
  store_pack(dq + static_cast<std::int64_t>(row) * stride + column, value);
}

template <class T, int D, int warps, int queries>
bool launch_tiles(const BackwardArguments<T>& arguments, std::size_t shared_bytes) {
  using S = Shape<T, D, warps, queries>;
  if (S::shared_bytes > shared_bytes) return false;
  const AttentionShape& s = arguments.in.forward.shape;
  const Grid grid{static_cast<unsigned>(ceil_div(s.sequence, S::keys)), static_cast<unsigned>(s.kv_heads),
                  static_cast<unsigned>(s.batch)};
  launch(attention_backward_kernel<T, D, warps, queries>, grid, S::threads, S::shared_bytes, arguments);
  return true;
}

/// Returns the number of floats in the sums of dq. The warpgroup kernel stores whole tiles, so each sequence
/// is padded to a multiple of query_tile.
std::size_t query_sums(const AttentionShape& s) {
  return static_cast<std::size_t>(s.batch) * static_cast<std::size_t>(s.heads) *
         static_cast<std::size_t>(ceil_div(s.sequence, query_tile) * query_tile) *
         static_cast<std::size_t>(s.head_size);
}

template <class T, int D>
void launch_backward(const AttentionBackward<T>& in, std::size_t shared_bytes) {
  const AttentionShape& s = in.forward.shape;
  const std::int64_t rows = static_cast<std::int64_t>(s.batch) * s.sequence * s.heads;
  const std::size_t sums = query_sums(s);
  const BackwardArguments<T> arguments{in, in.workspace, in.workspace + sums,
                                       1.0F / sqrtf(static_cast<float>(D))};
  device_zero(arguments.dq_sum, sums * sizeof(float));
  const auto blocks =
      static_cast<unsigned>(ceil_div<std::int64_t>(rows * D / pack_size<T>, pointwise_threads));
  launch(delta_kernel<T, D>, {blocks}, pointwise_threads, 0, rows, s.sequence, s.heads, in.forward.out,
         in.dout, arguments.delta);
  if (attention_backward_by_warpgroups(arguments, shared_bytes)) return;
  bool launched = false;
  if constexpr (sizeof(T) == 4)  // fp32 is used in checks only
    launched = launch_tiles<T, D, 2, 16>(arguments, shared_bytes);
  else
    launched = launch_tiles<T, D, 8, 64>(arguments, shared_bytes) ||
               launch_tiles<T, D, 4, 64>(arguments, shared_bytes) ||
               launch_tiles<T, D, 4, 32>(arguments, shared_bytes);
  if (!launched) throw DeviceError("attention: not enough shared memory");
  launch(round_kernel<T>, {blocks}, pointwise_threads, 0, s.batch * s.sequence, s.heads * D,
         in.forward.row_stride, arguments.scale, arguments.dq_sum, in.dq);
}

}  // namespace

std::size_t attention_workspace(const AttentionShape& shape) {
  return query_sums(shape) + static_cast<std::size_t>(shape.batch) * static_cast<std::size_t>(shape.heads) *
                                 static_cast<std::size_t>(shape.sequence);
}

template <class T>
void attention_backward(const AttentionBackward<T>& in, std::size_t shared_bytes) {
  const std::size_t max_shared_bytes = shared_bytes != 0 ? shared_bytes : device_limits().shared_bytes;
  if (in.forward.shape.head_size == 64) return launch_backward<T, 64>(in, max_shared_bytes);
  if (in.forward.shape.head_size == 128) return launch_backward<T, 128>(in, max_shared_bytes);
  throw DeviceError("attention: head size " + std::to_string(in.forward.shape.head_size) +
                    " is not supported; use 64 or 128");
}

template void attention_backward<float>(const AttentionBackward<float>&, std::size_t);
template void attention_backward<Half>(const AttentionBackward<Half>&, std::size_t);
template void attention_backward<Bfloat16>(const AttentionBackward<Bfloat16>&, std::size_t);

}  // namespace dtfm::kernels
