// What one stage asks of the device that computes it: times, messages, memory. Formulas of simulator's own,
// which shares none with planner/cost.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "planner/core/compression.hpp"
#include "planner/core/layer_times.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"
#include "simulator/model/zero.hpp"

namespace dtfm::sim {

/// Of one device; with tensor parallelism, of each device of the stage.
struct StageLoad {
  double forward_s = 0, backward_s = 0;  // of a micro-batch; backward with what is computed again
  double overhead_s = 0;                 // the part of each of them that is of no layer
  double update_s = 0;                   // the optimizer's step, once an iteration
  double model_flops = 0;       // of a micro-batch, forward and backward, without what is computed again
  double output_bytes = 0;      // uncompressed activations of a micro-batch; their gradients come back
  double gradient_bytes = 0;    // compressed, that are exchanged, of all its layers
  double weight_bytes = 0;      // weights and optimizer state, that a device which takes over has to fetch
  double state_bytes = 0;       // weights, gradients and optimizer: held all the time
  double activation_bytes = 0;  // held of every micro-batch from its forward to its backward
  double working_bytes = 0;     // held while computing
};

/// The loads of the stages of one job on one topology.
///
/// Times are those of LayerTimes, times the constants' compute scale, plus their overhead of a micro-batch.
/// Tensor parallelism divides messages and memory evenly (that is with sequence parallelism, arXiv
/// 2205.05198), and the slowest device sets the pace; the all-reduces inside a stage come on top
/// (StageAllReduces).
///
/// A micro-batch holds, from its forward to its backward: the activations of every layer (none), those
/// without the attention core (selective), or the inputs of the layers (full); and
/// while computing, one layer's of what is computed again (the last layer's with the head's, 4 s h + 4 s V
/// bytes of a sequence); and the output, until its gradient is back. With schedule gpipe also buffers for the
/// gradients of input and output, which its trainers allocate for all micro-batches at once (measured: 8 MB
/// each, in and out, activations and gradients).
///
/// With a ZeroStage each replica holds its part of gradients and optimizer states, or of all state; then
/// also, while computing, the parameters of two layers, the one at hand and the next (DeepSpeed's
/// prefetching), and the gradients of the one at hand.
class LoadModel {
 public:
  /// For stages with the tensor degrees of `plan`. `problem` must outlive this. Throws Error for a profile of
  /// another model.
  LoadModel(const Problem& problem, const Plan& plan);

  /// Throws Error where the time on a device cannot be known (LayerTimes).
  StageLoad of(const Stage& stage) const;
  /// Of the forward of a stage, what its layer takes.
  double forward_s(const Stage& stage, int layer) const;
  /// Of the backward of a stage, what its layer takes.
  double backward_s(const Stage& stage, int layer) const;
  /// That a replica exchanges of one layer's gradients, compressed or not; `tied` with the first layer's
  /// copy, if it has one.
  double gradient_bytes(int layer, bool tied, bool compressed) const;
  /// What is left of so many bytes of activations where they are compressed.
  double compressed_activations(double bytes) const { return bytes * job_.compression.activations; }
  /// Do messages of activations and their gradients from one device to another go compressed?
  bool is_compressed(int from, int to) const {
    return dtfm::is_compressed(topology_, job_.compression, from, to);
  }
  /// Do gradients that these devices exchange?
  bool is_compressed(std::span<const int> devices) const {
    return dtfm::is_compressed(topology_, job_.compression, devices);
  }
  /// Of one layer's parameters, in the precision of the training; without a copy that is tied to the first
  /// layer.
  double parameter_bytes_of(int layer) const;
  /// What compressing takes, and expanding, of so many bytes uncompressed; 0: nothing.
  double activation_compression_s(double bytes) const { return bytes * activation_compression_s_per_byte_; }
  /// The same of so many bytes as they are sent.
  double gradient_compression_s(double bytes) const;
  int layers() const { return static_cast<int>(chain_.size()); }

 private:
  LayerTime time_of(const Stage& stage, int layer) const;
  double uncompressed_gradient_bytes(int layer, bool tied) const;
  double input_bytes(int layer) const;
  double saved_activation_bytes(const Stage& stage) const;

  double state_bytes_per_parameter() const;
  double gathered_bytes(const Stage& stage) const;

  const Job& job_;
  const Topology& topology_;
  std::optional<ZeroStage> zero_;
  double replicas_;
  double scale_, overhead_;  // s
  double activation_compression_s_per_byte_, gradient_compression_s_per_byte_;
  LayerTimes times_;
  std::vector<Layer> chain_;
};

}  // namespace dtfm::sim
