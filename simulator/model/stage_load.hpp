// Load of a stage on the device that computes it: times, messages and memory. The simulator has its own
// formulas and shares none with planner/cost.
#pragma once

#include <span>
#include <vector>

#include "core/plan/communication.hpp"
#include "core/plan/compression.hpp"
#include "core/plan/layer_times.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"

namespace dtfm::sim {

/// Load of one device; with tensor parallelism, of each device of the stage.
struct StageLoad {
  double forward_s = 0, backward_s = 0;                // per micro-batch; backward includes recomputation
  double weight_gradient_s = 0;                        // part of `backward_s` for the gradients of parameters
  double hidden_forward_s = 0, hidden_backward_s = 0;  // parts that overlap with exchanges of keys and values
  double overhead_s = 0;                               // part of each of them that belongs to no layer
  double update_s = 0;                                 // optimizer step, once per iteration
  double model_flops = 0;   // per micro-batch, forward and backward, without recomputation
  double output_bytes = 0;  // sent per micro-batch: uncompressed activations, and as many of their gradients
  double gradient_bytes = 0;       // synchronized gradients of all layers, compressed
  double weight_bytes = 0;         // weights and optimizer state, which a replacement device must fetch
  double expert_weight_bytes = 0;  // part of them of experts that are divided apart
  double state_bytes = 0;          // weights, gradients and optimizer state, held permanently
  double activation_bytes = 0;     // per micro-batch, held from its forward to the end of its backward
  double working_bytes = 0;        // held while computing, including process memory
};

/// The loads of the stages of one plan on one topology, with the execution of the plan.
///
/// Times are those of LayerTimes, plus the calibrated overhead per micro-batch. The devices of a stage divide
/// work evenly, and parameters as StageMesh says; Parallelism says whether it divides messages and
/// activations. The slowest device of a stage determines its times. The all-reduces inside a stage are not
/// included (see core/plan/communication.hpp).
///
/// From its forward to its backward, a micro-batch holds the activations of every layer (recompute `none`),
/// those without the attention core (`selective`), or the inputs of the layers (`full`; with
/// `recompute_layers` only of the first ones), and the output until its gradient arrives. With
/// `offload`, the first `offload_layers` keep only their inputs. Their other activations are in host memory:
/// they cross the host link once in each pass, which takes at least as long. During a pass, all offloaded
/// activations of its micro-batch are on the device. While computing, the activations that are recomputed for
/// one layer are held as well; for the last layer they include those of the head, 4 s h + 4 s V bytes per
/// sequence. Schedule `gpipe` also holds buffers for the gradients of input and output, which its trainers
/// allocate for all micro-batches at once (measured: 8 MB each for incoming and outgoing activations and
/// gradients).
///
/// With optimizer sharding, each of n replicas (sharing_replicas, times the copies inside a stage) holds 1 /
/// n of the state that is partitioned (arXiv 1910.02054, figure 1): of w bytes of weights, g of gradients and
/// r of optimizer state per parameter, w + g
/// + r / n (zero1), w + (g + r) / n (zero2) or (w + g + r) / n (zero3). While computing with zero2 or zero3,
/// it also holds the gradients of the current layer and, with zero3, the parameters of the current and the
/// next one (DeepSpeed prefetches the next layer).
class LoadModel {
 public:
  /// Supports stages with the tensor degrees of `plan`. `problem` must outlive this. Throws Error for a
  /// profile that does not fit the job (see LayerTimes).
  LoadModel(const Problem& problem, const Plan& plan);

  /// Throws Error if the time on a device cannot be determined (see LayerTimes).
  StageLoad of(const Stage& stage) const;
  /// Whether these devices of a stage of `stage_size` exchange sums besides what their layer times contain.
  bool has_all_reduces(std::span<const int> devices, std::size_t stage_size) const;
  /// Seconds that one layer contributes to the forward of a stage, without overhead or offload.
  double forward_s(const Stage& stage, int layer) const;
  /// Seconds that one layer contributes to the backward of a stage, without overhead. With offload, the
  /// stage's layers from `layer` on together take max(computation, transfer from the host); this is the
  /// layer's share.
  double backward_s(const Stage& stage, int layer) const;
  /// Seconds of `backward_s` that compute the gradients of the layer's parameters.
  double weight_gradient_s(const Stage& stage, int layer) const;
  /// Seconds of `backward_s` that overlap with the exchange of the layer's keys and values.
  double hidden_backward_s(const Stage& stage, int layer) const;
  /// Returns the compressed size of so many bytes of activations.
  double compressed_activations(double bytes) const { return bytes * execution_.compression.activations; }
  /// Returns whether activations and their gradients are compressed between these devices.
  bool is_compressed(int from, int to) const {
    return dtfm::is_compressed(topology_, execution_.compression, from, to);
  }
  /// Returns whether gradients are compressed when these devices synchronize them.
  bool is_compressed(std::span<const int> devices) const {
    return dtfm::is_compressed(topology_, execution_.compression, devices);
  }
  /// Seconds to compress, or to decompress, activations of so many bytes uncompressed.
  double activation_compression_s(double bytes) const { return bytes * activation_compression_s_per_byte_; }
  /// Seconds to compress, or to decompress, gradients of so many bytes compressed.
  double gradient_compression_s(double bytes) const;
  int layers() const { return static_cast<int>(chain_.size()); }
  const LayerBytes& bytes() const { return bytes_; }

 private:
  bool is_recomputed(const Stage& stage, int layer) const;
  const RecomputationTraits& recomputation_of(const Stage& stage, int layer) const;
  LayerTime time_of(const Stage& stage, int layer) const;
  Layer layer_on_device(const Stage& stage, int layer) const;
  double input_bytes(const Stage& stage, int layer) const;
  double saved_activation_bytes(const Stage& stage) const;
  double offload_s(const Stage& stage, int layer) const;
  double last_layers_backward_s(const Stage& stage, int begin) const;

  double state_bytes_per_parameter(double replicas) const;
  double gathered_bytes(const Stage& stage) const;

  const Job& job_;
  const ExecutionConfig execution_;
  const Topology& topology_;
  OptimizerShardingTraits sharding_;
  double replicas_;  // pipelines that partition the state
  double overhead_;  // s
  double process_memory_bytes_;
  double activation_compression_s_per_byte_, gradient_compression_s_per_byte_;
  LayerTimes times_;
  std::vector<Layer> chain_;
  LayerBytes bytes_;
};

}  // namespace dtfm::sim
