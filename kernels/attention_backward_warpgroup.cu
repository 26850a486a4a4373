#include "kernels/attention_panel.cuh"
#include "kernels/attention_warpgroup.hpp"

namespace dtfm::kernels {
namespace {

// Two warpgroups of 64 keys each, whose gradients fill half of the registers.
constexpr int groups = 2, group_keys = 64, keys = groups * group_keys, queries = 64;
constexpr int threads = groups * warpgroup_size;
constexpr int stages = 2;  // tiles of queries: one in use, one being loaded

template <class T, int D>
struct BackwardTiles {
  using Keys = PanelTile<T, keys, D>;
  using Queries = PanelTile<T, queries, D>;
  using Scores = PanelTile<T, keys, queries>;
  static constexpr std::size_t bytes =
      sizeof(T) * (2 * Keys::size + 2 * stages * Queries::size + Scores::size) +
      2 * stages * sizeof(float) * queries;
  Keys k, v;
  Scores ds;  // gradient of the scores, one row per key
  T* q_and_dout;
  float* sums;

  __device__ explicit BackwardTiles(T* shared)
      : k{shared},
        v{k.data + Keys::size},
        ds{v.data + Keys::size},
        q_and_dout(ds.data + Scores::size),
        sums(reinterpret_cast<float*>(q_and_dout + 2 * stages * Queries::size)) {}
  __device__ Queries q(int stage) const { return {q_and_dout + 2 * stage * Queries::size}; }
  __device__ Queries dout(int stage) const { return {q_and_dout + (2 * stage + 1) * Queries::size}; }
  __device__ float* log_sums(int stage) const { return sums + 2 * stage * queries; }  // log₂ Σ 2^…
  __device__ float* deltas(int stage) const { return sums + (2 * stage + 1) * queries; }
};

/// Adds dsᵀ (queries × keys) · k to the gradient of the queries, one row per token. With heads of 128 numbers
/// each warpgroup computes half of the columns; with 64, the groups take turns.
template <class T, int D>
__device__ void add_query_gradient(const BackwardTiles<T, D>& tiles, int step, float* dq, int stride,
                                   int rows_left) {
  const int group = thread_index() / warpgroup_size;
  if (D == panel_columns && step % groups != group) return wait_products<0>();
  const int column = D == panel_columns ? 0 : group * panel_columns;
  float sum[panel_columns / 8][4];
  begin_products();
#pragma unroll
  for (int key = 0; key < keys; key += 16)
    multiply_warpgroup<T, panel_columns, true, true>(sum, tiles.ds.by_columns(key, 0),
                                                     tiles.k.by_columns(key, column), key > 0);
  commit_products();
  wait_products<0>();
  const LanePlace at = lane_place();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = thread_index() % warpgroup_size / warp_size * 16 + at.g + 8 * half;
    if (row >= rows_left) continue;
    float* to = dq + static_cast<std::int64_t>(row) * stride + column + 2 * at.t;
#pragma unroll
    for (int j = 0; j < panel_columns / 8; ++j)
      atomic_add_pair(to + 8 * j, sum[j][2 * half], sum[j][2 * half + 1]);
  }
}

/// Block (x, key and value head, sequence of the batch) handles one tile of keys and, for each query head of
/// the group, all tiles of queries that attend to them.
template <class T, int D>
__global__ void __launch_bounds__(threads, 1)
    attention_backward_warpgroup_kernel(BackwardArguments<T> arguments) {
  if constexpr (has_warpgroup_products) {
    const AttentionForward<T>& in = arguments.in.forward;
    const BackwardTiles<T, D> tiles(shared_memory<T>());
    const int n = in.shape.sequence, heads = in.shape.heads, stride = in.row_stride, width = heads * D;
    const int first_key = block_index() * keys;
    const int group_row = thread_index() / warpgroup_size * group_keys;
    const int warp_row = thread_index() / warp_size * 16;
    const int heads_of_group = heads / in.shape.kv_heads;
    const int first_head = static_cast<int>(blockIdx.y) * heads_of_group;
    const std::int64_t token = static_cast<std::int64_t>(blockIdx.z) * n;
    const std::int64_t kv_offset = (token + first_key) * stride + static_cast<std::int64_t>(blockIdx.y) * D;
    const int first_tile = in.shape.causal ? first_key / queries : 0;
    const int tiles_of_head = ceil_div(n, queries) - first_tile, steps = heads_of_group * tiles_of_head;
    const auto head_of = [&](int step) { return first_head + step / tiles_of_head; };
    const auto query_of = [&](int step) { return (first_tile + step % tiles_of_head) * queries; };
    const auto start = [&](int step) {
      const int head = head_of(step), query = query_of(step), stage = step % stages;
      load_panels<threads>(tiles.q(stage), in.q + (token + query) * stride + head * D, stride, n - query);
      load_panels<threads>(tiles.dout(stage), arguments.in.dout + (token + query) * width + head * D, width,
                           n - query);
      commit_copies();
    };
    const auto sums_of = [&](int step) -> FloatPair {
      const int query = query_of(step) + thread_index();
      if (thread_index() >= queries || query >= n) return {INFINITY, 0};
      const std::int64_t row = (static_cast<std::int64_t>(blockIdx.z) * heads + head_of(step)) * n + query;
      return {in.log_sum_exp[row] * log2_e, arguments.delta[row]};
    };
    const auto keep_sums = [&](FloatPair sums, int stage) {
      if (thread_index() >= queries) return;
      tiles.log_sums(stage)[thread_index()] = sums.x;
      tiles.deltas(stage)[thread_index()] = sums.y;
    };

    load_panels<threads>(tiles.k, in.k + kv_offset, stride, n - first_key);
    load_panels<threads>(tiles.v, in.v + kv_offset, stride, n - first_key);
    start(0);
    keep_sums(sums_of(0), 0);
    float dk[D / 8][4], dv[D / 8][4];
    clear(dk);
    clear(dv);
    for (int step = 0; step < steps; ++step) {
      const int query = query_of(step), stage = step % stages;
      wait_copies<0>();
      publish_shared();
      __syncthreads();  // this stage has arrived; the other one and the previous ds are no longer needed
      if (step + 1 < steps) start(step + 1);
      const FloatPair next_sums = step + 1 < steps ? sums_of(step + 1) : FloatPair{INFINITY, 0};
      float s[queries / 8][4], ds[queries / 8][4];
      begin_products();
#pragma unroll
      for (int d = 0; d < D; d += 16)
        multiply_warpgroup<T, queries, false, false>(s, tiles.k.by_rows(group_row, d),
                                                     tiles.q(stage).by_rows(0, d), d > 0);
#pragma unroll
      for (int d = 0; d < D; d += 16)
        multiply_warpgroup<T, queries, false, false>(ds, tiles.v.by_rows(group_row, d),
                                                     tiles.dout(stage).by_rows(0, d), d > 0);
      commit_products();
      wait_products<0>();
      const bool masked = first_key + keys > n || (in.shape.causal && first_key + keys > query + 1);
      probabilities(s, ds, tiles.log_sums(stage), tiles.deltas(stage), arguments.scale * log2_e, masked,
                    first_key + warp_row - query, n - first_key - warp_row, in.shape.causal);
      Pair<T> p[queries / 16][4], dp[queries / 16][4];
#pragma unroll
      for (int k = 0; k < queries / 16; ++k) {
        as_operand<T>(p[k], s[2 * k], s[2 * k + 1]);
        as_operand<T>(dp[k], ds[2 * k], ds[2 * k + 1]);
      }
      begin_products();
#pragma unroll
      for (int k = 0; k < queries / 16; ++k)
        multiply_warpgroup<T, D, true>(dv, p[k], tiles.dout(stage).by_columns(16 * k, 0));
#pragma unroll
      for (int k = 0; k < queries / 16; ++k)
        multiply_warpgroup<T, D, true>(dk, dp[k], tiles.q(stage).by_columns(16 * k, 0));
      commit_products();
      const LanePlace at = lane_place();
#pragma unroll
      for (int k = 0; k < queries / 16; ++k)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          store_pair(tiles.ds.at(warp_row + at.g + i % 2 * 8, 16 * k + i / 2 * 8 + 2 * at.t), dp[k][i]);
      publish_shared();
      __syncthreads();  // ds is complete
      add_query_gradient(tiles, step, arguments.dq_sum + (token + query) * width + head_of(step) * D, width,
                         n - query);
      keep_sums(next_sums, (step + 1) % stages);
    }
    __syncthreads();  // the keys and values are no longer needed: the gradients pass through their tiles
    const std::int64_t to = kv_offset + static_cast<std::int64_t>(warp_row) * stride;
    const int rows_left = n - first_key - warp_row;
    write_rows(dk, tiles.k, warp_row, arguments.scale, arguments.scale, arguments.in.dk + to, stride,
               rows_left);
    write_rows(dv, tiles.v, warp_row, 1.0F, 1.0F, arguments.in.dv + to, stride, rows_left);
  }
}

template <class T, int D>
bool launch_backward(const BackwardArguments<T>& arguments, std::size_t shared_bytes) {
  if (BackwardTiles<T, D>::bytes > shared_bytes) return false;
  const AttentionShape& s = arguments.in.forward.shape;
  const Grid grid{static_cast<unsigned>(ceil_div(s.sequence, keys)), static_cast<unsigned>(s.kv_heads),
                  static_cast<unsigned>(s.batch)};
  launch(attention_backward_warpgroup_kernel<T, D>, grid, threads, BackwardTiles<T, D>::bytes, arguments);
  return true;
}

}  // namespace

template <class T>
bool attention_backward_by_warpgroups(const BackwardArguments<T>& arguments, std::size_t shared_bytes) {
  if constexpr (sizeof(T) == 2) {
    if (!device_limits().warpgroup_products) return false;
    const int head_size = arguments.in.forward.shape.head_size;
    if (head_size == 64) return launch_backward<T, 64>(arguments, shared_bytes);
    if (head_size == 128) return launch_backward<T, 128>(arguments, shared_bytes);
  }
  return false;
}

template bool attention_backward_by_warpgroups<float>(const BackwardArguments<float>&, std::size_t);
template bool attention_backward_by_warpgroups<Half>(const BackwardArguments<Half>&, std::size_t);
template bool attention_backward_by_warpgroups<Bfloat16>(const BackwardArguments<Bfloat16>&, std::size_t);

}  // namespace dtfm::kernels
