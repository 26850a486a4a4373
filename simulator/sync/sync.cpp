#include "simulator/sync/sync.hpp"

#include <fmt/format.h>

#include "planner/core/error.hpp"

namespace dtfm::sim {
namespace {

struct SyncAlgorithm {
  std::string_view name;
  std::vector<int> (*add)(GraphBuilder&, const GradientSync&);
};

constexpr SyncAlgorithm sync_algorithms[] = {{"sharded-ps", sharded_ps},
                                             {"central-ps", central_ps},
                                             {"ring", ring},
                                             {"tree", tree},
                                             {"hierarchical", hierarchical}};

TaskLabel label_of(Activity activity, const GradientSync& gradient_sync, int phase) {
  TaskLabel label;
  label.activity = activity;
  label.layer = gradient_sync.layer;
  label.rank = gradient_sync.part;
  label.phase = phase;
  return label;
}

}  // namespace

int GradientSyncMessages::send(int from, int to, double bytes, std::span<const int> after, int phase) {
  const double sent = bytes / builder_.constants().sync_efficiency;
  return builder_.send(builder_.channel(from, to, Activity::gradient_sync), sent, after,
                       label_of(Activity::gradient_sync, gradient_sync_, phase));
}

int GradientSyncMessages::join(const std::vector<int>& tasks, int device, int phase) {
  TaskLabel label = label_of(Activity::wait, gradient_sync_, phase);
  label.device = device;
  return builder_.wait(0, tasks, label);
}

std::vector<int> add_gradient_sync(GraphBuilder& builder, std::string_view name,
                                   const GradientSync& gradient_sync) {
  DTFM_ASSERT(gradient_sync.devices.size() > 1);
  for (const SyncAlgorithm& algorithm : sync_algorithms)
    if (algorithm.name == name) return algorithm.add(builder, gradient_sync);
  throw Error("", fmt::format("there is no gradient_sync `{}`", name));
}

}  // namespace dtfm::sim
