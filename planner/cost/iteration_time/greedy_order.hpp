// The order of passes under schedule zb-greedy: forwards, input gradients and weight gradients that hide
// messages and fill the bubble, under the times of a pipeline and the memory of its devices.
#pragma once

#include <vector>

#include "planner/cost/iteration_time/pipeline_time.hpp"

namespace dtfm::cost {

/// How far ahead a device computes, by stage.
struct ZeroBubbleLimits {
  std::vector<int> warm_ups;  // forwards before the first input gradient; non-increasing from stage to stage
  std::vector<int> delays;    // input gradients whose weight gradient is not yet computed
};

/// Limits whose micro-batches in flight fit into the memory (`work.max_warm_ups`): `scale` times the warm-ups
/// that hide messages in the steady state, and as many delayed weight gradients as fill the time in which the
/// last gradient returns to the first stage.
ZeroBubbleLimits zero_bubble_limits(const PipelineWork& work, double scale);

/// The scale that estimates of plans without passes assume. The first micro-batches pass a stage while the
/// gradients of none return to it, so that a stage can use longer warm-ups than the steady state needs.
/// Chosen by hand: the mean over random pipelines is best.
constexpr double usual_scale = 2;

/// By stage, the order that alternates a forward, an input gradient and a weight gradient, for as many
/// micro-batches as it takes until the order repeats, or for all of a flush.
std::vector<PassOrder> alternating_passes(const PipelineWork& work, const ZeroBubbleLimits& limits);

/// The same for stages that always compute an input gradient that has arrived, or else a forward that has
/// arrived and is within the limits, or else a weight gradient (list scheduling). Messages take as long as
/// those of unroll_pipeline, but do not share links.
std::vector<PassOrder> greedy_passes(const PipelineWork& work, const ZeroBubbleLimits& limits);

/// The alternating order with the shortest estimate among those of several limits and that of zb-h1, or, if
/// there are few micro-batches, a greedy order that is clearly shorter.
std::vector<PassOrder> search_passes(const PipelineWork& work);

}  // namespace dtfm::cost
