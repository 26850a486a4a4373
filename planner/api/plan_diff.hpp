// How two plans differ, and the state migration from the first to the second.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/api/warm_start.hpp"

namespace dtfm::api {

/// What a device does in a plan. Pipelines have no names, so neighbours identify them.
struct DeviceRole {
  int stage = 0, rank = 0, tensor = 1, micro_batches = 0;
  std::vector<std::pair<int, int>> layers;  // of its virtual stages
  std::vector<std::string> before, after;   // devices of the adjacent stages whose shards overlap its own
  // What the plan says about the order of the stage, and about its recomputed layers (Stage).
  std::optional<int> warm_up = {}, recompute_layers = {};
  PassOrder passes = {};

  bool has_other_layers(const DeviceRole& other) const {
    return stage != other.stage || rank != other.rank || tensor != other.tensor || layers != other.layers;
  }
  friend bool operator==(const DeviceRole&, const DeviceRole&) = default;
};

struct DeviceDiff {
  std::vector<std::string> enter, leave;  // devices that only the second or only the first plan uses
  struct Change {
    std::string id;
    DeviceRole first, second;
  };
  std::vector<Change> changes;

  bool is_same() const { return enter.empty() && leave.empty() && changes.empty(); }
};

/// Devices are matched by id, and listed in the order of their ids.
DeviceDiff compare_devices(const RunningPlan& first, const RunningPlan& second);

struct PlanDiffRequest {
  RunningPlan first, second;
  Problem problem;             // of the second plan; its topology has the devices of that plan
  bool knows_network = false;  // the topology has links; otherwise it may be `topology_without_links`
};

struct PlanDiff {
  DeviceDiff devices;
  std::optional<ModelDifference> models;  // if they differ, no state can be reused
  PlanMigration migration;                // otherwise; it has a summary
};

/// Throws Error if a device of the second plan is not in the topology, and as check_migration_steps does.
PlanDiff compare_plans(const PlanDiffRequest& request);

/// The devices of both plans.
Topology topology_without_links(const RunningPlan& first, const RunningPlan& second);

}  // namespace dtfm::api
