#include "simulator/sync/sync.hpp"

#include <algorithm>

#include "planner/core/error.hpp"

namespace dtfm::sim {
namespace {

struct SyncAlgorithm {
  GradientSync sync;
  std::vector<int> (*add)(GraphBuilder&, const SyncGroup&);
};

constexpr SyncAlgorithm sync_algorithms[] = {{GradientSync::sharded_ps, sharded_ps},
                                             {GradientSync::central_ps, central_ps},
                                             {GradientSync::ring, ring},
                                             {GradientSync::tree, tree},
                                             {GradientSync::hierarchical, hierarchical}};

TaskLabel label_of(Activity activity, const SyncGroup& group, int phase) {
  TaskLabel label;
  label.activity = activity;
  label.layer = group.layer;
  label.rank = group.part;
  label.phase = phase;
  return label;
}

}  // namespace

int GradientSyncMessages::send(int from, int to, double bytes, std::span<const int> after, int phase) {
  const double sent = bytes / builder_.constants().sync_efficiency;
  return builder_.send(builder_.channel(from, to, Activity::gradient_sync), sent, after,
                       label_of(Activity::gradient_sync, group_, phase));
}

int GradientSyncMessages::join(const std::vector<int>& tasks, int device, int phase) {
  TaskLabel label = label_of(Activity::wait, group_, phase);
  label.device = device;
  return builder_.wait(0, tasks, label);
}

std::vector<int> add_gradient_sync(GraphBuilder& builder, GradientSync sync, const SyncGroup& group) {
  DTFM_ASSERT(group.devices.size() > 1);
  const auto algorithm = std::find_if(std::begin(sync_algorithms), std::end(sync_algorithms),
                                      [&](const SyncAlgorithm& it) { return it.sync == sync; });
  DTFM_ASSERT(algorithm != std::end(sync_algorithms));
  return algorithm->add(builder, group);
}

}  // namespace dtfm::sim
