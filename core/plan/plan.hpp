// The result of planning: the assignment of layers and micro-batches to devices, and the settings with which
// they are executed. Pipelines may be heterogeneous.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/plan/execution_config.hpp"
#include "core/schedule/schedule.hpp"

namespace dtfm {

struct Stage {
  std::pair<int, int> layers;  // [first, last)
  std::vector<int> devices;    // indices into Topology::devices, by tensor-parallel rank
  /// Number of layers of each chunk under schedule interleaved; empty: split evenly.
  std::vector<int> virtual_layers = {};
  /// Number of forward passes before the first backward pass under eager-1f1b. Empty: chosen by the planner
  /// (choose_warm_ups); twice that of 1F1B for a simulator without one.
  std::optional<int> warm_up = {};
  /// The order of forwards, input gradients and weight gradients under schedule zb-greedy
  /// (`zero_bubble_greedy_order`). Empty: chosen by the planner
  /// (search_passes).
  PassOrder passes = {};
  /// Number of first layers of the (virtual) stage that are recomputed under Recomputation::as_needed, or
  /// offloaded under Recomputation::offload. Empty: chosen by the planner (fewest_recomputed); all for a
  /// simulator without it.
  std::optional<int> recompute_layers = {};

  friend bool operator==(const Stage&, const Stage&) = default;
};

struct Pipeline {
  int micro_batches = 0;
  std::vector<Stage> stages;

  friend bool operator==(const Pipeline&, const Pipeline&) = default;
};

struct Plan {
  int tensor = 1;  // maximum tensor degree over all stages; see core/plan/shards.hpp if they differ
  ExecutionConfig execution;
  std::vector<Pipeline> pipelines;

  friend bool operator==(const Plan&, const Plan&) = default;
};

/// Micro-batches per iteration of all pipelines together.
long long total_micro_batches(const Plan& plan);
/// Stages of the deepest pipeline, and of the shallowest.
int depth(const Plan& plan);
int min_depth(const Plan& plan);
inline bool are_equally_deep(const Plan& plan) {
  return min_depth(plan) == depth(plan);
}
/// [stage]: its devices in all pipelines that have so many stages; they synchronize gradients.
std::vector<std::vector<int>> stage_groups(const Plan& plan);
/// The number of first layers, at most `layers`, of each virtual stage of `stage` that are recomputed or
/// offloaded. Only meaningful if `execution.recomputation` is not none.
int recomputed_layers(const ExecutionConfig& execution, const Stage& stage, int layers);
/// [stage]: what the schedule leaves to plans; empty if that is nothing.
std::vector<PlannedOrder> planned_orders(const Pipeline& pipeline, Schedule schedule);
/// Without Stage::warm_up, Stage::passes and Stage::recompute_layers, which planners then choose.
Plan without_planned_orders(Plan plan);
/// The devices pipeline by pipeline, and stage by stage in each pipeline.
std::vector<int> pipeline_major(const Plan& plan);
/// The devices stage by stage, and pipeline by pipeline in each stage.
std::vector<int> stage_major(const Plan& plan);

/// A balanced placement of stages × replicas devices: `at(s, r)` computes stage s of pipeline r. The devices
/// of stage s are group s, which synchronizes gradients.
class Placement {
 public:
  Placement() = default;
  Placement(int stages, int replicas)
      : stages_(stages), replicas_(replicas), devices_(device_count_of(stages, replicas)) {}

  int stages() const { return stages_; }
  int replicas() const { return replicas_; }
  int& at(int stage, int replica) { return devices_[index(stage, replica)]; }
  int at(int stage, int replica) const { return devices_[index(stage, replica)]; }
  /// The devices of one stage, by replica.
  std::span<const int> group(int stage) const {
    return {&devices_[index(stage, 0)], static_cast<std::size_t>(replicas_)};
  }
  /// Stage-major: the devices of stage 0, then of stage 1, …
  const std::vector<int>& devices() const { return devices_; }

  friend bool operator==(const Placement&, const Placement&) = default;

 private:
  static std::size_t device_count_of(int stages, int replicas) {
    return static_cast<std::size_t>(stages) * static_cast<std::size_t>(replicas);
  }
  std::size_t index(int stage, int replica) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(replicas_) +
           static_cast<std::size_t>(replica);
  }

  int stages_ = 0, replicas_ = 0;
  std::vector<int> devices_;
};

/// Range [first, last) of stage `stage` if `layers` layers are cut into `stages` stages as evenly as
/// possible.
std::pair<int, int> even_split(int layers, int stages, int stage);

/// The plan that deploys `placement`: layers and micro-batches split as evenly as possible.
Plan plan_from_placement(const Placement& placement, const struct Job& job);

/// The plan as a balanced placement, which objective comm-cost requires. Throws Error naming `file` for
/// pipelines of unequal depth or with different stages, tensor parallelism, and unused devices.
Placement balanced_placement(const Plan& plan, const struct Topology& topology, const std::string& file);

}  // namespace dtfm
