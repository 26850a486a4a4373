#include "kernels/attention_panel.cuh"
#include "kernels/attention_softmax.cuh"
#include "kernels/attention_warpgroup.hpp"

namespace dtfm::kernels {
namespace {

constexpr int groups = 2, group_queries = 64, queries = groups * group_queries, keys = 128;
constexpr int threads = groups * warpgroup_size;
constexpr int stages = 2;  // tiles of keys and of values: one in use, one being loaded

template <class T, int D>
struct ForwardTiles {
  using Keys = PanelTile<T, keys, D>;
  static constexpr std::size_t bytes = sizeof(T) * (queries * D + 2 * stages * Keys::size);
  PanelTile<T, queries, D> q;
  T* k_and_v;

  __device__ explicit ForwardTiles(T* shared) : q{shared}, k_and_v(shared + q.size) {}
  __device__ Keys k(int tile) const { return {k_and_v + tile % stages * 2 * Keys::size}; }
  __device__ Keys v(int tile) const { return {k_and_v + (tile % stages * 2 + 1) * Keys::size}; }
};

/// Block (x, head, sequence of the batch) handles one tile of queries. Blocks take the tiles from last to
/// first, because with causal masking the last have the most keys. The products with the values of a tile run
/// during the softmax of the next tile.
template <class T, int D>
__global__ void __launch_bounds__(threads, 1)
    attention_warpgroup_kernel(AttentionForward<T> in, float scale) {
  if constexpr (has_warpgroup_products) {
    const ForwardTiles<T, D> tiles(shared_memory<T>());
    const int n = in.shape.sequence, heads = in.shape.heads, head = static_cast<int>(blockIdx.y);
    const int first_query = (block_count() - 1 - block_index()) * queries;
    const int group_row = thread_index() / warpgroup_size * group_queries;
    const int warp_row = thread_index() / warp_size * 16;
    const std::int64_t token = static_cast<std::int64_t>(blockIdx.z) * n;
    const std::int64_t kv_offset = token * in.row_stride + head / (heads / in.shape.kv_heads) * D;
    const int end = in.shape.causal && first_query + queries < n ? first_query + queries : n;
    const int count = ceil_div(end, keys);
    const auto load = [&](PanelTile<T, keys, D> to, const T* from, int tile) {
      if (tile < count)
        load_panels<threads>(to, from + kv_offset + static_cast<std::int64_t>(tile * keys) * in.row_stride,
                             in.row_stride, n - tile * keys);
    };
    load_panels<threads>(tiles.q, in.q + (token + first_query) * in.row_stride + head * D, in.row_stride,
                         n - first_query);
    load(tiles.k(0), in.k, 0);
    commit_copies();
    Rows<D, 1> rows;
    Pair<T> p[keys / 16][4];  // probabilities of the previous tile
    const auto add_values = [&](int tile) {
#pragma unroll
      for (int k = 0; k < keys / 16; ++k)
        multiply_warpgroup<T, D, true>(rows.out[0], p[k], tiles.v(tile).by_columns(16 * k, 0));
      commit_products();
    };
    const auto step = [&](int tile, auto is_first) {
      wait_copies<0>();
      publish_shared();
      __syncthreads();  // these keys and the previous values have arrived; older ones are no longer needed
      load(tiles.k(tile + 1), in.k, tile + 1);
      load(tiles.v(tile), in.v, tile);
      commit_copies();
      float s[1][keys / 8][4], correction[1][2];
      begin_products();
#pragma unroll
      for (int d = 0; d < D; d += 16)
        multiply_warpgroup<T, keys, false, false>(s[0], tiles.q.by_rows(group_row, d),
                                                  tiles.k(tile).by_rows(0, d), d > 0);
      commit_products();
      if constexpr (!is_first.value) add_values(tile - 1);
      wait_products<is_first.value ? 0 : 1>();  // for the scores
      const int key = tile * keys;
      if (key + keys > n || (in.shape.causal && key + keys > first_query + group_row + 1))
        mask_scores(s, first_query + warp_row, key, n, in.shape.causal);
      online_softmax(s, rows, correction, scale);
      wait_products<0>();
      if constexpr (!is_first.value) rescale(rows, correction);
#pragma unroll
      for (int k = 0; k < keys / 16; ++k) as_operand<T>(p[k], s[0][2 * k], s[0][2 * k + 1]);
    };
    step(0, std::true_type{});
    for (int tile = 1; tile < count; ++tile) step(tile, std::false_type{});
    wait_copies<0>();
    publish_shared();
    __syncthreads();  // the last values have arrived; the queries are no longer needed
    begin_products();
    add_values(count - 1);
    wait_products<0>();
    float inverse[1][2];
    const std::int64_t row = static_cast<std::int64_t>(blockIdx.z) * heads + head;
    finish_sums(rows, inverse, warp_row, in.log_sum_exp + row * n + first_query, n - first_query);
    write_rows(rows.out[0], tiles.q, warp_row, inverse[0][0], inverse[0][1],
               in.out + (token + first_query) * heads * D + head * D, heads * D, n - first_query);
  }
}

template <class T, int D>
bool launch_forward(const AttentionForward<T>& in, std::size_t shared_bytes) {
  if (ForwardTiles<T, D>::bytes > shared_bytes) return false;
  const AttentionShape& s = in.shape;
  const Grid grid{static_cast<unsigned>(ceil_div(s.sequence, queries)), static_cast<unsigned>(s.heads),
                  static_cast<unsigned>(s.batch)};
  launch(attention_warpgroup_kernel<T, D>, grid, threads, ForwardTiles<T, D>::bytes, in,
         log2_e / sqrtf(static_cast<float>(D)));
  return true;
}

}  // namespace

template <class T>
bool attention_forward_by_warpgroups(const AttentionForward<T>& in, std::size_t shared_bytes) {
  if constexpr (sizeof(T) == 2) {
    if (!device_limits().warpgroup_products) return false;
    if (in.shape.head_size == 64) return launch_forward<T, 64>(in, shared_bytes);
    if (in.shape.head_size == 128) return launch_forward<T, 128>(in, shared_bytes);
  }
  return false;
}

template bool attention_forward_by_warpgroups<float>(const AttentionForward<float>&, std::size_t);
template bool attention_forward_by_warpgroups<Half>(const AttentionForward<Half>&, std::size_t);
template bool attention_forward_by_warpgroups<Bfloat16>(const AttentionForward<Bfloat16>&, std::size_t);

}  // namespace dtfm::kernels
