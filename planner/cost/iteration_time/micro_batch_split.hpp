// How many micro-batches each of several unlike pipelines computes.
#pragma once

#include <vector>

namespace dtfm::cost {

/// Seconds of a pipeline with m > 0 micro-batches: fill_s + m · steady_s. Without any: 0.
struct PipelinePace {
  double fill_s = 0, steady_s = 0;
};

/// Multiples of `multiple` that add up to `total`, itself a multiple of it (else Error), by pipeline (at
/// least one), so that the last pipeline ends as early as possible; of equal choices that with more for the
/// first pipelines.
std::vector<int> balanced_micro_batches(const std::vector<PipelinePace>& pipelines, int multiple, int total);

}  // namespace dtfm::cost
