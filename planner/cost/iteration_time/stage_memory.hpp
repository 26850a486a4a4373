// Memory of the devices of a stage: state and activations. These formulas are independent of the simulator's.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "core/base/range_max.hpp"
#include "core/plan/communication.hpp"
#include "core/plan/job.hpp"
#include "core/plan/stage_mesh.hpp"

namespace dtfm::cost {

/// Bytes that a device of a stage holds.
struct StageNeeds {
  double state = 0;            // weights, gradients, optimizer state
  double per_micro_batch = 0;  // from its forward to its backward
  double working = 0;          // only while computing, including process memory
};

/// Memory of stages with one number of devices. `layers` is always a range [first, second) of the job's
/// layers, of which the first `recomputed` are recomputed, or offloaded with Recomputation::offload. The job
/// must not have open settings.
class StageMemory {
 public:
  StageMemory(const Job& job, double process_bytes, int devices);

  const StageMesh& mesh() const { return mesh_; }
  const LayerBytes& bytes() const { return bytes_; }
  int layers() const { return bytes_.layers(); }
  /// Of each device of the stage, if so many replicas partition the state of its layers (if the job's
  /// optimizer_sharding says so). More replicas never need more.
  StageNeeds needs(std::pair<int, int> layers, int replicas, int recomputed) const;
  /// Activations that each device keeps of a micro-batch, without buffers for messages.
  double kept_bytes(std::pair<int, int> layers, int recomputed) const;
  /// The same at least, whatever the job lets the layers recompute.
  double least_kept_bytes(std::pair<int, int> layers) const;
  /// Bytes of all activations of a micro-batch in these layers on each device, kept or not.
  double activation_bytes(std::pair<int, int> layers) const;
  /// Whether no layer needs more memory if it is recomputed, or, with two micro-batches in flight, if it is
  /// offloaded. (Its input may be larger than all of its activations.)
  bool recomputing_saves() const { return recomputing_saves_; }

 private:
  void find_partitioned_state(const Job& job);

  StageMesh mesh_;
  LayerBytes bytes_;
  double process_bytes_;
  bool recomputes_, offloads_, partitions_weights_, buffers_boundaries_;
  /// Bytes per parameter: on every replica, and of all replicas together.
  double held_ = 0, partitioned_ = 0;
  std::vector<double> held_output_;  // bytes of the activation before each layer
  bool recomputing_saves_ = true;
  std::vector<double> least_;         // prefix sums for least_kept_bytes
  std::vector<double> kept_, whole_;  // prefix sums for one device; the latter if no layer is recomputed
  RangeMax working_;                  // by layer
  RangeMax gradients_;                // by layer: of the activations of its MLP
  RangeMax unpartitioned_;            // by layer: bytes of state that exist as a whole during its passes
};

}  // namespace dtfm::cost
