// Bytes of model state: weights, gradients and optimizer state.
#pragma once

#include "core/plan/job.hpp"

namespace dtfm {

/// Bytes per parameter.
struct ParameterBytes {
  double resident = 0;      // on the device: weights, gradients, optimizer state
  double gradients = 0;     // part of that: gradients
  double synced = 0;        // part of these: the gradient that replicas synchronize
  double checkpointed = 0;  // fp32 weights and optimizer state: what cannot be computed again
  double weights = 0;       // in the precision of the training, which sharded optimizers all-gather
};

/// Gradients are synchronized in the precision in which the optimizer accumulates them: fp32, or that of the
/// training.
ParameterBytes parameter_bytes(const Training& training);

}  // namespace dtfm
