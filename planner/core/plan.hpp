// Who computes what: the result of planning, general enough for pipelines that differ from each other.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "planner/core/gradient_sync.hpp"
#include "planner/core/schedule.hpp"

namespace dtfm {

struct Stage {
  std::pair<int, int> layers;  // first … last + 1
  std::vector<int> devices;    // indices into Topology::devices; as many as its tensor degree

  friend bool operator==(const Stage&, const Stage&) = default;
};

struct Pipeline {
  int micro_batches = 0;
  std::vector<Stage> stages;

  friend bool operator==(const Pipeline&, const Pipeline&) = default;
};

struct Plan {
  int tensor = 1;  // the largest degree of all stages (planner/core/shards.hpp: where they differ)
  Schedule schedule = Schedule::gpipe;
  GradientSync gradient_sync = GradientSync::sharded_ps;
  std::vector<Pipeline> pipelines;

  friend bool operator==(const Plan&, const Plan&) = default;
};

/// Of all pipelines, an iteration.
long long total_micro_batches(const Plan& plan);
/// Stages of the deepest pipeline.
int depth(const Plan& plan);
/// By stage: its devices in every pipeline that is so deep, which exchange gradients.
std::vector<std::vector<int>> stage_groups(const Plan& plan);
/// The device of each rank, pipeline by pipeline and stage by stage.
std::vector<int> pipeline_major(const Plan& plan);
std::vector<int> stage_major(const Plan& plan);

/// A balanced placement of stages × replicas devices: `at(s, r)` computes stage s of pipeline r. The devices
/// of stage s are the group s, which exchanges gradients.
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

/// Layers [first, last) of stage `stage` when `layers` are cut into `stages` stages as evenly as possible.
std::pair<int, int> even_split(int layers, int stages, int stage);

/// The plan that deploys `placement`: layers and micro-batches split as evenly as possible.
Plan plan_from_placement(const Placement& placement, const struct Job& job);

}  // namespace dtfm
