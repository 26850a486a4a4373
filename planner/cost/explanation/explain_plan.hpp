// Why a plan takes as long as it does, what would help, and what makes the job compute-bound.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "planner/cost/explanation/plan_bottleneck.hpp"
#include "planner/cost/explanation/what_if.hpp"

namespace dtfm::cost {

/// How fast a plan is, and why.
struct PlanThroughput {
  double iteration_s = 0, tokens_per_s = 0, model_flops_per_s = 0;
  double compute_s = 0, sending_s = 0;  // of the slowest pipeline, what hangs on stages and on hops
  double sync_s = 0;                // after it
  double deficit_bytes = 0;                   // bytes of memory
};

struct PlanExplanation {
  PlanBottleneck bottleneck;
  std::vector<WhatIf> what_ifs;
  PlanThroughput now;
  /// The hidden size doubled: an iteration is longer, and has more FLOPs. Nothing: not a transformer.
  std::optional<PlanThroughput> double_width;
  /// The least factor by which activations and gradients have to be compressed further, and the least
  /// multiple of the hidden size, from which the plan is compute-bound (`is_compute_bound`); 1: it is. Of
  /// compute, which grows with hidden², and activations, whose bytes grow with hidden (the square-cube law of
  /// Ryabinin et al., arXiv 2301.11913), the second follows. Nothing: not up to `max_compression` or
  /// `max_width`, or not a transformer.
  std::optional<double> compute_bound_compression;
  std::optional<int> compute_bound_width;
};

inline constexpr double max_compression = 1024;
inline constexpr int max_width = 64;

/// Of the plan as it is; of changes, as `what_ifs` does. `network`: of the topology.
PlanExplanation explain_plan(const PlannedProblem& planned,
                                 const std::shared_ptr<const NetworkCost>& network, int threads);

}  // namespace dtfm::cost
