// The first micro-batches of a pipeline, one computation and message after the other: for schedules whose
// times have no closed formula.
#pragma once

#include <vector>

#include "planner/cost/iteration_time/pipeline_time.hpp"

namespace dtfm::cost {

struct UnrolledPipeline {
  PipelineTime time;                       // steady_s is not known
  std::vector<double> micro_batch_done_s;  // by micro-batch: its last backward is done
};

/// Of 1f1b or interleaved. Every device computes its steps in order, each as soon as it can; every device has
/// a channel to the next one for activations and to the one before for gradients, over which messages go one
/// after the other. A message is slower (HopTime::occupancy_while_sending_s, occupancy_while_receiving_s)
/// while its sender sends, or its receiver gets, one of the other direction. Micro-batches are a multiple of
/// the devices for interleaved.
UnrolledPipeline unroll_pipeline(Schedule schedule, const PipelineWork& work);

}  // namespace dtfm::cost
