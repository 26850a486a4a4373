// How many forwards each stage computes before its first backward under eager-1f1b.
#pragma once

#include <vector>

#include "planner/cost/iteration_time/pipeline_time.hpp"

namespace dtfm::cost {

/// Maximum cycle mean, per micro-batch, of a pipeline whose stages alternate one forward and one backward
/// after these warm-ups, which must not become longer from a stage to the next. If the backward is split, a
/// weight gradient follows each input gradient.
double alternating_steady_s(const PipelineWork& work, const std::vector<int>& warm_ups,
                            bool splits_backward = false);

/// The warm-ups of 1F1B: as many forwards as stages follow.
std::vector<int> shortest_warm_ups(int stages);

/// The shortest warm-ups with which the steady state is as short as `work.max_warm_ups` allow (or those of
/// shortest_warm_ups, where these are longer). Messages are then hidden as far as possible. With a `scale`
/// above 1, they are as many times longer, within the memory: enough for a busiest stage that is as many
/// times faster.
std::vector<int> choose_warm_ups(const PipelineWork& work, double scale = 1, bool splits_backward = false);

}  // namespace dtfm::cost
