// What one stage asks of the device that computes it: times, messages, memory. Formulas of simulator's own,
// which shares none with planner/cost.
#pragma once

#include "planner/core/job.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/topology.hpp"
#include "simulator/model/constants.hpp"

namespace dtfm {

/// Of one device; with tensor parallelism, of each device of the stage.
struct StageLoad {
  double forward_s = 0, backward_s = 0;  // of a micro-batch; backward with what is computed again
  double model_flops = 0;       // of a micro-batch, forward and backward, without what is computed again
  double output_bytes = 0;      // activations of a micro-batch that go on; their gradients come back
  double gradient_bytes = 0;    // that are exchanged, of all its layers
  double weight_bytes = 0;      // that a device which takes over has to fetch
  double state_bytes = 0;       // weights, gradients and optimizer: held all the time
  double activation_bytes = 0;  // held of every micro-batch from its forward to its backward
  double working_bytes = 0;     // held while computing
};

/// Throws Error when the speed of the device cannot be known: no GPU given, or one without a peak.
StageLoad stage_load(const Job& job, const Topology& topology, const SimConstants& constants,
                     const Stage& stage);

}  // namespace dtfm
