#include "planner/cost/comm_cost/group_syncs.hpp"

#include <algorithm>

namespace dtfm::cost {
namespace {

/// Puts `joining` in the slot of `leaving`, in O(replicas) rather than by summing over all pairs.
void replace(const CommCostModel& model, int leaving, int joining, StageSlot place, DeviceSlots& slots,
             GroupSyncs& syncs) {
  const double* lost = &model.sync(0, leaving);
  const double* gained = &model.sync(0, joining);
  slots.place(joining, place);
  double joined = 0, slowest = 0, total = 0;
  for (const int peer : slots.group(place.stage)) {
    joined += gained[peer];
    if (peer == joining) continue;
    double& of_peer = syncs.of_device[at(peer)];
    of_peer += gained[peer] - lost[peer];
    slowest = std::max(slowest, of_peer);
    total += of_peer;
  }
  syncs.of_device[at(joining)] = joined;
  syncs.slowest[at(place.stage)] = std::max(slowest, joined);
  syncs.total[at(place.stage)] = total + joined;
}

}  // namespace

GroupSyncs::GroupSyncs(const CommCostModel& model, const DeviceSlots& slots)
    : of_device(slots.devices.size()), slowest(at(slots.stages)), total(at(slots.stages)) {
  for (int stage = 0; stage < slots.stages; ++stage)
    for (const int device : slots.group(stage)) {
      const double* sync = &model.sync(0, device);
      double sum = 0;
      for (const int peer : slots.group(stage)) sum += sync[peer];
      of_device[at(device)] = sum;
      slowest[at(stage)] = std::max(slowest[at(stage)], sum);
      total[at(stage)] += sum;
    }
}

SyncTotals GroupSyncs::totals() const {
  SyncTotals all;
  for (std::size_t stage = 0; stage < slowest.size(); ++stage) {
    all.slowest = std::max(all.slowest, slowest[stage]);
    all.total += total[stage];
  }
  return all;
}

void swap_devices(const CommCostModel& model, std::pair<int, int> devices, DeviceSlots& slots,
                  GroupSyncs& syncs) {
  const auto [a, b] = devices;
  const StageSlot of_a = slots.places[at(a)], of_b = slots.places[at(b)];
  replace(model, a, b, of_a, slots, syncs);
  replace(model, b, a, of_b, slots, syncs);
}

SyncTotals totals_after(const GroupSyncs& syncs, const CommCostModel& model, const DeviceSlots& slots,
                        std::span<const std::pair<int, int>> swaps) {
  SyncTotals all;
  for (int stage = 0; stage < slots.stages; ++stage) {
    all.total += syncs.total[at(stage)];
    const bool changes = std::any_of(swaps.begin(), swaps.end(), [&](const auto& swap) {
      return stage == slots.stage_of(swap.first) || stage == slots.stage_of(swap.second);
    });
    if (!changes) all.slowest = std::max(all.slowest, syncs.slowest[at(stage)]);
  }
  for (const auto& [a, b] : swaps)
    for (const auto& [leaving, joining] : {std::pair{a, b}, std::pair{b, a}}) {
      const double* lost = &model.sync(0, leaving);
      const double* gained = &model.sync(0, joining);
      double joined = -gained[leaving], slowest = all.slowest;
      for (const int peer : slots.group(slots.stage_of(leaving))) {
        joined += gained[peer];
        if (peer != leaving)
          slowest = std::max(slowest, syncs.of_device[at(peer)] - lost[peer] + gained[peer]);
      }
      all.slowest = std::max(slowest, joined);
      all.total += 2 * (joined - syncs.of_device[at(leaving)]);
    }
  return all;
}

}  // namespace dtfm::cost
