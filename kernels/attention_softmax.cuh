// Softmax of attention on C fragments, online in the forward pass and from stored sums in the backward pass.
// In the forward pass a warp holds `tiles` row tiles of 16 queries.
#pragma once

#include "kernels/attention_fragment.cuh"

namespace dtfm::kernels {

inline constexpr float log2_e = 1.44269504F;
inline constexpr float ln_2 = 0.693147181F;

/// State of a warp's rows. For each of the two rows that a lane holds in a row tile: the maximum of the
/// scores so far (as a power of two), the lane's share of Σ 2^(score − maximum), and the output before
/// division by that sum.
template <int D, int tiles>
struct Rows {
  float out[tiles][D / 8][4] = {};
  float maximum[tiles][2], sum[tiles][2] = {};

  __device__ Rows() {
#pragma unroll
    for (auto& of_tile : maximum) of_tile[0] = of_tile[1] = -INFINITY;
  }
};

/// Sets scores to −∞ where the key is at or past `end` or, if causal, after the query.
template <int tiles, int fragments>
__device__ void mask_scores(float (&s)[tiles][fragments][4], int query, int key, int end, bool causal) {
  const LanePlace at = lane_place();
#pragma unroll
  for (int m = 0; m < tiles; ++m)
#pragma unroll
    for (int n = 0; n < fragments; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = query + 16 * m + at.g + i / 2 * 8, column = key + 8 * n + 2 * at.t + i % 2;
        if (column >= end || (causal && column > row)) s[m][n][i] = -INFINITY;
      }
}

/// Replaces s by 2^(s·scale − maximum), where the maximum includes that of earlier tiles, and adds it to
/// rows.sum. `correction` is the factor by which the output so far must be multiplied (rescale); rows.sum is
/// already corrected.
template <int tiles, int fragments, int D>
__device__ void online_softmax(float (&s)[tiles][fragments][4], Rows<D, tiles>& rows,
                               float (&correction)[tiles][2], float scale) {
#pragma unroll
  for (int m = 0; m < tiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float maximum = -INFINITY;
#pragma unroll
      for (auto& fragment : s[m]) maximum = fmaxf(maximum, fmaxf(fragment[2 * half], fragment[2 * half + 1]));
      maximum = fmaxf(maximum, __shfl_xor_sync(whole_warp, maximum, 1));
      maximum = fmaxf(maximum, __shfl_xor_sync(whole_warp, maximum, 2));
      maximum = fmaxf(maximum * scale, rows.maximum[m][half]);
      correction[m][half] = fast_exp2(rows.maximum[m][half] - maximum);
      rows.maximum[m][half] = maximum;
      float sum = rows.sum[m][half] * correction[m][half];
#pragma unroll
      for (auto& fragment : s[m])
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          fragment[i] = fast_exp2(fmaf(fragment[i], scale, -maximum));
          sum += fragment[i];
        }
      rows.sum[m][half] = sum;
    }
}

/// Multiplies the output so far by the corrections.
template <int tiles, int D>
__device__ void rescale(Rows<D, tiles>& rows, const float (&correction)[tiles][2]) {
#pragma unroll
  for (int m = 0; m < tiles; ++m)
#pragma unroll
    for (auto& fragment : rows.out[m])
#pragma unroll
      for (int i = 0; i < 4; ++i) fragment[i] *= correction[m][i / 2];
}

/// Writes the log-sum-exp of the warp's rows first_row … up to rows_left, and sets `inverse` to the
/// reciprocals of their sums.
template <int D, int tiles>
__device__ void finish_sums(const Rows<D, tiles>& rows, float (&inverse)[tiles][2], int first_row,
                            float* log_sum_exp, int rows_left) {
  const LanePlace at = lane_place();
#pragma unroll
  for (int m = 0; m < tiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = rows.sum[m][half];
      sum += __shfl_xor_sync(whole_warp, sum, 1);
      sum += __shfl_xor_sync(whole_warp, sum, 2);
      inverse[m][half] = 1.0F / sum;
      const int row = first_row + 16 * m + at.g + 8 * half;
      if (at.t == 0 && row < rows_left) log_sum_exp[row] = (rows.maximum[m][half] + log2f(sum)) * ln_2;
    }
}

/// Turns the scores (one row per key) into probabilities p = 2^(s·scale − log_sum). If masked, they
/// are zero where the key is past the end or, if causal, after the query. Queries past the end have an
/// infinite log_sum, which also gives zero.
template <int fragments>
__device__ void probabilities(float (&s)[fragments][4], const float* log_sums, float scale, bool masked,
                              int key_minus_query, int keys_left, bool causal) {
  const LanePlace at = lane_place();
#pragma unroll
  for (int n = 0; n < fragments; ++n) {
    const FloatPair sums = load_pair(log_sums + 8 * n + 2 * at.t);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = at.g + i / 2 * 8, query = 8 * n + 2 * at.t + i % 2;
      s[n][i] = fast_exp2(fmaf(s[n][i], scale, i % 2 == 0 ? -sums.x : -sums.y));
      if (masked && (key >= keys_left || (causal && key + key_minus_query > query))) s[n][i] = 0;
    }
  }
}

/// Turns the gradients of the probabilities into those of the scores, p · (dp − delta).
template <int fragments>
__device__ void score_gradients(const float (&p)[fragments][4], float (&dp)[fragments][4],
                                const float* deltas) {
  const LanePlace at = lane_place();
#pragma unroll
  for (int n = 0; n < fragments; ++n) {
    const FloatPair of_queries = load_pair(deltas + 8 * n + 2 * at.t);
#pragma unroll
    for (int i = 0; i < 4; ++i) dp[n][i] = p[n][i] * (dp[n][i] - (i % 2 == 0 ? of_queries.x : of_queries.y));
  }
}

}  // namespace dtfm::kernels
