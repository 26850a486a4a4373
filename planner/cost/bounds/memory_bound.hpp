// A proof that no plan of a job fits in memory, from sums of bytes alone: without times, messages and search.
#pragma once

#include <vector>

#include "core/cluster/topology.hpp"
#include "core/plan/job.hpp"
#include "planner/cost/bounds/bound_inputs.hpp"

namespace dtfm::cost {

/// Memory of the devices that plans may use, without what a process takes on each.
class MemorySupply {
 public:
  MemorySupply(const Topology& topology, const std::vector<int>& devices, double process_bytes);

  int devices() const { return static_cast<int>(sums_.size()) - 1; }
  double process_bytes() const { return process_bytes_; }
  /// Of the `count` devices that have most; of all, if there are fewer.
  double sum(int count) const;
  /// The most that all devices of a stage can have, whose tensor-parallel groups are each on one host. 0 if
  /// no host has enough devices.
  double of_stage(int devices, int tensor) const;

 private:
  double process_bytes_;
  std::vector<double> largest_, sums_;        // descending; prefix sums
  std::vector<std::vector<double>> by_host_;  // descending
};

/// What any plan needs at least, compared with what it has at most: where the ratio is largest.
struct MemoryNeed {
  enum class Kind : unsigned char {
    sum,   // on all devices of a plan together
    layer  // on each device of the stage that holds a layer
  };
  Kind kind = Kind::sum;
  double needed_bytes = 0, available_bytes = 0;
  double state_bytes = 0;  // weights, gradients and optimizer state in `needed_bytes`
  int replicas = 1;        // of the model, in a sum
  int devices = 0;         // that have `available_bytes` together, or hold the layer
  int layer = 0;
  double parameters = 0, state_bytes_per_parameter = 0;  // of the model

  /// Infinite if there are too few devices for a stage.
  double ratio() const;
  /// Whether no plan fits in memory.
  bool is_short() const;
};

/// Of all plans of `jobs`, which must not be empty. The jobs have no open settings, and differ only in
/// degrees that the stages of a plan may mix. The result is certain whatever the schedule: every pipeline
/// holds one micro-batch, and the buffers at the boundaries of stages are not counted.
///
/// - Sum: every pipeline holds the state of all parameters, except for what replicas partition, and the
///   activations that all layers keep.
/// - Layer: the stage that holds a layer needs at least what a stage of this layer alone needs.
///
/// Of several jobs, a plan needs at least what the one with the smallest ratio needs.
MemoryNeed memory_need(const std::vector<Job>& jobs, const MemorySupply& supply,
                       const PlanLimits& limits = {});

}  // namespace dtfm::cost
