// Upper bounds on the micro-batches that one pipeline may finish in a given time, however its layers are cut
// and on whichever devices.
#pragma once

#include <optional>
#include <vector>

#include "planner/cost/bounds/bound_inputs.hpp"

namespace dtfm::cost {

/// Whether a pipeline of `stages` stages may fit in memory with one micro-batch in flight.
bool may_fit_cut(const BoundInputs& inputs, int stages);

/// The most micro-batches of a pipeline with these costs within `limit_s`, by number of stages minus 1; 0
/// below `min_stages`. The pipeline has up to `max_stages` stages, or exactly as many as `limits` says.
/// Throws WorkStopped.
std::vector<double> max_micro_batches_by_depth(const BoundInputs& inputs, const PipelineCosts& costs,
                                               int min_stages, int max_stages, const PlanLimits& limits,
                                               double limit_s);

}  // namespace dtfm::cost
