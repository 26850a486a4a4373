// What the bounds on the iteration time share: computed once for a model, then only read.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "core/base/index.hpp"
#include "core/base/stop.hpp"
#include "planner/cost/bounds/load_balance_bound.hpp"
#include "planner/cost/bounds/message_bounds.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

/// Relative. Bisections end here, and the result is lowered by it, so rounding does not matter.
inline constexpr double bisection_precision = 1e-9;

/// The plans that a bound is for: any, or those whose pipelines all have this depth, or with this number of
/// pipelines.
struct PlanLimits {
  std::optional<int> stages, replicas;
};

/// Rates of stages, at best (BalancedWork).
struct StageRates {
  std::vector<double> sums;  // of the n fastest, by n
  double min = 0;            // of any stage
};

/// Least bytes that stages hold, per device of a stage at the largest degree, and most bytes that they have.
struct MemoryBound {
  double state = 0, per_micro_batch = 0;  // of all layers
  double largest_layer = 0;
  std::vector<double> sums;          // most that n stages can have, by n
  std::vector<double> state_before;  // of the first n layers, by n

  /// Whether this number of stages may have so many bytes, but for rounding.
  bool has(double bytes, int stages) const {
    return bytes <= sums[static_cast<std::size_t>(stages)] * (1 + bisection_precision);
  }
};

/// What pipelines of one kind take at least.
struct PipelineCosts {
  MessageLine sync;         // after a device's last backward pass, as a function of its gradients' bytes
  double first_sync_s = 0;  // after all pipelines, for the first layer
  double hop_s = 0;         // of one of the hops, there and back, with latency
  double hop_busy_s = 0;    // occupancy of one of the hops, in each direction

  /// Synchronization of a device's gradients of these bytes, whatever the stage boundaries of other
  /// pipelines: its links have to carry all of its messages, the last of which arrives one latency later,
  /// and every synchronization takes two messages in sequence.
  double device_sync_s(double bytes) const {
    return sync.fixed_s + std::max(sync.fixed_s, bytes * sync.seconds_per_byte);
  }
};

struct BoundInputs {
  const IterationModel& model;
  StopFunction stop;
  std::vector<int> devices;  // with known layer times
  int layers = 0, micro_batches = 0;
  int slots = 0;       // most stages of all pipelines together
  int max_stages = 0;  // of a pipeline
  HopBounds hops;
  double compression_s = 0;  // of a hop's activations or gradients, at the boundary where it is shortest
  LayerTimesBound layer_times;
  BalancedWork balanced;
  StageRates rates;
  MemoryBound memory;
  std::vector<double> gradients_before;  // least bytes of the first n layers, by n
  std::vector<PipelineCosts> syncs;      // by number of pipelines with micro-batches
};

/// `model` must outlive the result. Takes O(n² log n) time for n devices. Throws Error if too few devices
/// have known layer times for a single stage, and WorkStopped.
BoundInputs bound_inputs(const IterationModel& model, StopFunction stop = {});

}  // namespace dtfm::cost
