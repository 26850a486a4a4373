// What one stage asks of the device that computes it: times, messages, memory. Formulas of simulator's own,
// which shares none with planner/cost.
#pragma once

#include <vector>

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
  double weight_bytes = 0;      // weights and optimizer state, that a device which takes over has to fetch
  double state_bytes = 0;       // weights, gradients and optimizer: held all the time
  double activation_bytes = 0;  // held of every micro-batch from its forward to its backward
  double working_bytes = 0;     // held while computing
};

/// The loads of the stages of one job on one topology.
///
/// Times are FLOPs ÷ (peak of the GPU · efficiency · speed of the device). Backward with recomputation `full`
/// includes the forward of the blocks, `selective` that of their attention cores; final norm, head and loss
/// are computed once, their backward after their forward. Tensor parallelism divides times, messages and
/// memory evenly (that is with sequence parallelism, arXiv 2205.05198), and the slowest device sets the pace;
/// the all-reduces inside a stage come on top (StageAllReduces).
///
/// A micro-batch holds, from its forward to its backward: the activations of every layer (none), those
/// without the attention core (selective), or the inputs of the layers (full); and
/// while computing, one layer's of what is computed again (the last layer's with the head's, 4 s h + 4 s V
/// bytes of a sequence); and the output, until its gradient is back. With schedule gpipe also buffers for the
/// gradients of input and output, which its trainers allocate for all micro-batches at once (measured: 8 MB
/// each, in and out, activations and gradients).
class LoadModel {
 public:
  /// The arguments must outlive this. Throws Error for a profile that is a file.
  LoadModel(const Job& job, const Topology& topology, const SimConstants& constants);

  /// Throws Error when the speed of a device cannot be known: no GPU given, or one without a peak.
  StageLoad of(const Stage& stage) const;
  /// That a replica exchanges of one layer's gradients; `tied` with the first layer's copy, if it has one.
  double gradient_bytes(int layer, bool tied) const;
  /// Of a sequence, with what is computed again.
  double backward_flops(int layer) const;
  int layers() const { return static_cast<int>(chain_.size()); }

 private:
  double flops_per_second(const Stage& stage) const;
  double input_bytes(int layer) const;
  double kept_bytes(const Stage& stage) const;

  const Job& job_;
  const Topology& topology_;
  double efficiency_;
  std::vector<Layer> chain_;
};

/// `LoadModel::of` for once.
StageLoad stage_load(const Job& job, const Topology& topology, const SimConstants& constants,
                     const Stage& stage);

}  // namespace dtfm
