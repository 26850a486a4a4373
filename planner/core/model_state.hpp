// What a parameter costs: bytes that the optimizers hold, send and save.
#pragma once

#include "planner/core/job.hpp"

namespace dtfm {

/// Bytes a parameter.
struct ParameterBytes {
  double resident = 0;      // on the device: weights, gradients, optimizer
  double synced = 0;        // of its gradient
  double checkpointed = 0;  // weights in full precision and optimizer state, what cannot be computed again
};

/// By the name of the preset. Gradients go in the precision in which the preset accumulates them: fp32 where
/// it holds fp32 gradients (adam-18 and adam-20, Megatron's main gradients; sgd-12), else that of the
/// training. Throws Error for an optimizer that there is not.
ParameterBytes parameter_bytes(const Training& training);

}  // namespace dtfm
