// The micro-batches of a pipeline, one computation and message at a time, for schedules without a closed
// formula.
#pragma once

#include <vector>

#include "planner/cost/iteration_time/pipeline_time.hpp"

namespace dtfm::cost {

struct UnrolledPipeline {
  PipelineTime time;                       // without steady_s
  std::vector<double> micro_batch_done_s;  // by micro-batch: end of its last backward
};

/// Every device computes the operations of the schedule in order, each as soon as possible. It has one
/// channel to the next device for activations and one to the previous device for gradients; each sends one
/// message at a time. A link carries one message after the other, in the order of computation. If receives
/// are not posted ahead, a device does the actions of its list (core/schedule/messaging.hpp) in order, and a
/// message begins when it has been sent and its receive has been posted. Throws Error if the schedule cannot
/// be run.
UnrolledPipeline unroll_pipeline(Schedule schedule, const PipelineWork& work);

}  // namespace dtfm::cost
