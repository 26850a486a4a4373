// Which device is in each slot of each stage, and the gradient synchronization of all groups, updated in
// O(replicas) when a device is replaced.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "core/base/index.hpp"
#include "core/plan/plan.hpp"
#include "planner/cost/comm_cost/comm_cost.hpp"

namespace dtfm::cost {

/// A slot of a stage: the number of one of its devices, not of a pipeline.
struct StageSlot {
  int stage = 0, slot = 0;
};

struct DeviceSlots {
  int stages = 0, replicas = 0;
  std::vector<int> devices;       // at stage · replicas + slot
  std::vector<StageSlot> places;  // by device

  explicit DeviceSlots(const Placement& placement)
      : stages(placement.stages()),
        replicas(placement.replicas()),
        devices(placement.devices()),
        places(devices.size()) {
    for (int stage = 0; stage < stages; ++stage)
      for (int slot = 0; slot < replicas; ++slot) place(device({stage, slot}), {stage, slot});
  }

  int device(StageSlot it) const { return devices[at(it.stage) * at(replicas) + at(it.slot)]; }
  int stage_of(int device) const { return places[at(device)].stage; }
  int slot_of(int device) const { return places[at(device)].slot; }
  std::span<const int> group(int stage) const { return {&devices[at(stage) * at(replicas)], at(replicas)}; }
  void place(int device, StageSlot it) {
    devices[at(it.stage) * at(replicas) + at(it.slot)] = device;
    places[at(device)] = it;
  }
};

/// Seconds of gradient synchronization over all groups.
struct SyncTotals {
  double slowest = 0;  // of a group
  double total = 0;    // sum over all devices
};

struct GroupSyncs {
  std::vector<double> of_device;       // s, by device: sum of CommCostModel::sync over its group
  std::vector<double> slowest, total;  // s, by stage: maximum and sum over its devices

  GroupSyncs(const CommCostModel& model, const DeviceSlots& slots);
  SyncTotals totals() const;
};

/// Moves each device of a pair into the slot of the other; they are in different groups.
void swap_devices(const CommCostModel& model, std::pair<int, int> devices, DeviceSlots& slots,
                  GroupSyncs& syncs);

/// The totals after these swaps, whose devices are all in different groups.
SyncTotals totals_after(const GroupSyncs& syncs, const CommCostModel& model, const DeviceSlots& slots,
                        std::span<const std::pair<int, int>> swaps);

}  // namespace dtfm::cost
