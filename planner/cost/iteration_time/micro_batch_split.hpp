// How many micro-batches each of several heterogeneous pipelines computes.
#pragma once

#include <vector>

namespace dtfm::cost {

/// Seconds of a pipeline with m > 0 micro-batches: warm_up_s + m · steady_s; with none: 0.
struct PipelinePace {
  double warm_up_s = 0, steady_s = 0;
};

/// Micro-batches of each pipeline (at least one pipeline), in multiples of `multiple`, that add up to `total`
/// and let the last pipeline end as early as possible. Ties give more to the first pipelines. Throws Error if
/// `total` is not a multiple of `multiple`.
std::vector<int> balanced_micro_batches(const std::vector<PipelinePace>& pipelines, int multiple, int total);

}  // namespace dtfm::cost
