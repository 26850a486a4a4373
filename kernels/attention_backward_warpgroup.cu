#include "kernels/attention_panel.cuh"
#include "kernels/attention_softmax.cuh"
#include "kernels/attention_warpgroup.hpp"

namespace dtfm::kernels {
namespace {

// Two warpgroups of 64 keys each, whose gradients fill half of the registers.
constexpr int groups = 2, group_keys = 64, keys = groups * group_keys, queries = query_tile;
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

/// A warpgroup's part of dq = dsᵀ (queries × keys) · k: half of the columns for head size 128, half of the
/// keys for 64.
template <int D>
struct QueryPart {
  static constexpr bool of_columns = D > panel_columns;
  static constexpr int key_count = of_columns ? keys : group_keys;
  int first_key, column;

  __device__ QueryPart() {
    const int group = thread_index() / warpgroup_size;
    first_key = of_columns ? 0 : group * group_keys;
    column = of_columns ? group * panel_columns : 0;
  }
};

/// Layout of the sums of dq: [sequence][head][tile of queries][panel of 64 columns][fragment][thread][4], so
/// that a warp adds to 512 contiguous bytes.
struct QuerySums {
  static constexpr int panel = queries * panel_columns;
  float* data;
  int tiles_of_head, panels;

  __device__ float* at(std::int64_t head, int tile, int column, int fragment, int thread) const {
    const std::int64_t of_panel = (head * tiles_of_head + tile) * panels + column / panel_columns;
    return data + of_panel * panel + (fragment * warpgroup_size + thread) * 4;
  }
};

/// Scales and rounds the sums of dq. A thread handles eight columns of two rows: those of a fragment.
template <class T, int D>
__global__ void round_query_sums(QuerySums sums, AttentionBackward<T> in, float scale) {
  constexpr int packs = D / 8, rows = queries / 2;
  const AttentionShape& shape = in.forward.shape;
  const unsigned i = launch_thread();
  const int column = static_cast<int>(i % packs) * 8, row = static_cast<int>(i / packs % rows);
  const int tile = static_cast<int>(i / (packs * rows) % static_cast<unsigned>(sums.tiles_of_head));
  const int head = static_cast<int>(i / (packs * rows) / static_cast<unsigned>(sums.tiles_of_head));
  if (head >= shape.batch * shape.heads) return;
  const float* from = sums.at(head, tile, column, column % panel_columns / 8, row * 4);
  Floats<T> of_rows[2];
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    const Floats<float> quad = load_pack(from + 4 * t);
#pragma unroll
    for (int j = 0; j < 4; ++j) of_rows[j / 2].v[2 * t + j % 2] = quad.v[j] * scale;
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = tile * queries + row / 8 * 16 + row % 8 + 8 * half;
    if (query >= shape.sequence) continue;
    const std::int64_t token = static_cast<std::int64_t>(head / shape.heads) * shape.sequence + query;
    store_pack(in.dq + token * in.forward.row_stride + head % shape.heads * D + column, of_rows[half]);
  }
}

/// Block (x, key and value head, sequence of the batch) handles one tile of keys and, for each query head of
/// the group, all tiles of queries that attend to them.
template <class T, int D>
__global__ void __launch_bounds__(threads, 1)
    attention_backward_warpgroup_kernel(BackwardArguments<T> arguments, QuerySums query_sums) {
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
      commit_products();
#pragma unroll
      for (int d = 0; d < D; d += 16)
        multiply_warpgroup<T, queries, false, false>(ds, tiles.v.by_rows(group_row, d),
                                                     tiles.dout(stage).by_rows(0, d), d > 0);
      commit_products();
      wait_products<1>();  // for the scores
      const bool masked = first_key + keys > n || (in.shape.causal && first_key + keys > query + 1);
      probabilities(s, tiles.log_sums(stage), arguments.scale * log2_e, masked, first_key + warp_row - query,
                    n - first_key - warp_row, in.shape.causal);
      Pair<T> p[queries / 16][4], dp[queries / 16][4];
#pragma unroll
      for (int k = 0; k < queries / 16; ++k) as_operand<T>(p[k], s[2 * k], s[2 * k + 1]);
      begin_products();
#pragma unroll
      for (int k = 0; k < queries / 16; ++k)
        multiply_warpgroup<T, D, true>(dv, p[k], tiles.dout(stage).by_columns(16 * k, 0));
      commit_products();
      wait_products<1>();  // for the gradients of the probabilities
      score_gradients(s, ds, tiles.deltas(stage));
      const LanePlace at = lane_place();
#pragma unroll
      for (int k = 0; k < queries / 16; ++k) {
        as_operand<T>(dp[k], ds[2 * k], ds[2 * k + 1]);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          store_pair(tiles.ds.at(warp_row + at.g + i % 2 * 8, 16 * k + i / 2 * 8 + 2 * at.t), dp[k][i]);
      }
      publish_shared();
      __syncthreads();  // ds is complete
      const QueryPart<D> part;
      float dq[panel_columns / 8][4];
      begin_products();
#pragma unroll
      for (int key = 0; key < part.key_count; key += 16)
        multiply_warpgroup<T, panel_columns, true, true>(
            dq, tiles.ds.by_columns(part.first_key + key, 0),
            tiles.k.by_columns(part.first_key + key, part.column), key > 0);
      commit_products();
#pragma unroll
      for (int k = 0; k < queries / 16; ++k)
        multiply_warpgroup<T, D, true>(dk, dp[k], tiles.q(stage).by_columns(16 * k, 0));
      commit_products();
      wait_products<1>();  // for dq
#pragma unroll
      for (int j = 0; j < panel_columns / 8; ++j)
        atomic_add_quad(query_sums.at(static_cast<std::int64_t>(blockIdx.z) * heads + head_of(step),
                                      query / queries, part.column, j, thread_index() % warpgroup_size),
                        dq[j]);
      wait_products<0>();
      keep_sums(next_sums, (step + 1) % stages);
    }
    __syncthreads();  // the keys and values are no longer needed: the gradients reuse their tiles
    write_rows(dk, tiles.k, warp_row, arguments.scale, arguments.scale, arguments.in.dk + kv_offset, stride,
               n - first_key);
    write_rows(dv, tiles.v, warp_row, 1.0F, 1.0F, arguments.in.dv + kv_offset, stride, n - first_key);
  }
}

template <class T, int D>
bool launch_backward(const BackwardArguments<T>& arguments, std::size_t shared_bytes) {
  if (BackwardTiles<T, D>::bytes > shared_bytes) return false;
  const AttentionShape& s = arguments.in.forward.shape;
  const Grid grid{static_cast<unsigned>(ceil_div(s.sequence, keys)), static_cast<unsigned>(s.kv_heads),
                  static_cast<unsigned>(s.batch)};
  const QuerySums sums{arguments.dq_sum, ceil_div(s.sequence, queries), D / panel_columns};
  launch(attention_backward_warpgroup_kernel<T, D>, grid, threads, BackwardTiles<T, D>::bytes, arguments,
         sums);
  const std::int64_t packs =
      static_cast<std::int64_t>(s.batch) * s.heads * sums.tiles_of_head * queries / 2 * D / 8;
  constexpr int round_threads = 256;
  launch(round_query_sums<T, D>, {static_cast<unsigned>(ceil_div<std::int64_t>(packs, round_threads))},
         round_threads, 0, sums, arguments.in, arguments.scale);
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
