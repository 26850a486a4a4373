// Explains what limits a plan, which single changes would help, and what would make the job compute-bound.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "planner/cost/explanation/device_reasons.hpp"
#include "planner/cost/explanation/message_reasons.hpp"
#include "planner/cost/explanation/plan_bottleneck.hpp"
#include "planner/cost/explanation/what_if.hpp"

namespace dtfm::cost {

/// Throughput of a plan, with the components of its iteration time.
struct PlanThroughput {
  double iteration_s = 0, tokens_per_s = 0, model_flops_per_s = 0;
  double compute_s = 0, sending_s = 0;  // critical-path shares of stages and of hops in the slowest pipeline
  double sync_s = 0;                    // exposed gradient synchronization after the pipelines
  double deficit_bytes = 0;             // by which devices exceed their memory, summed; 0: the plan fits
};

struct PlanExplanation {
  PlanBottleneck bottleneck;
  MessageReasons messages;
  DeviceReasons devices;
  std::vector<WhatIf> what_ifs;
  PlanThroughput now;
  /// With the hidden size doubled: iterations are longer, and have more FLOPs. Empty if the model is not a
  /// transformer.
  std::optional<PlanThroughput> double_width;
  /// The least factor by which activations and gradients must be compressed further, and the least multiple
  /// of the hidden size, at which the plan becomes compute-bound (`is_compute_bound`); 1 if it already is.
  /// The multiple exists because compute grows with hidden², but activation bytes only with hidden (the
  /// square-cube law of Ryabinin et al., arXiv 2301.11913). Empty if not reached up to `max_compression` or
  /// `max_width`, or if the model is not a transformer.
  std::optional<double> compute_bound_compression;
  std::optional<int> compute_bound_width;
};

inline constexpr double max_compression = 1024;
inline constexpr int max_width = 64;

/// Explains the plan, and evaluates changes as `what_ifs` does. `network` must belong to the topology of the
/// problem. Throws WorkStopped.
PlanExplanation explain_plan(const PlannedProblem& planned, const std::shared_ptr<const NetworkCost>& network,
                             const Work& work);

}  // namespace dtfm::cost
