#include "simulator/sync/sync.hpp"

#include <algorithm>

#include "core/base/error.hpp"

namespace dtfm::sim {

// Each is defined in a file of its own. The formulas are of n devices that send and receive at rate B with
// latency a, for S bytes of gradients.

/// Every device sums a shard of all, then sends it to all: 2 (a + (n − 1) S / (n B)).
std::vector<int> sharded_ps(GraphBuilder& builder, const SyncGroup& group);
/// The first device sums everything, then sends the sum to all: 2 (a + (n − 1) S / B).
std::vector<int> central_ps(GraphBuilder& builder, const SyncGroup& group);
/// Reduce-scatter and all-gather around a ring (Patarasu and Yuan, 2009): 2 (n − 1) (a + S / (n B)).
/// Messages between hosts use all channels.
std::vector<int> ring(GraphBuilder& builder, const SyncGroup& group);
/// Reduction to the first device and broadcast from it over a binomial tree: at most 2 ⌈log2 n⌉ (a + S / B).
std::vector<int> tree(GraphBuilder& builder, const SyncGroup& group);
/// The gradients are cut into as many shards as the smallest site has devices. In every site one device per
/// shard sums it, those of the same shard form a ring across the sites, and then each sends its shard to all
/// of its site. With t sites of k devices: 2 (a + (k − 1) S / (k B)) inside, 2 (t − 1) (a' + S / (k t B'))
/// across.
std::vector<int> hierarchical(GraphBuilder& builder, const SyncGroup& group);

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

Activity activity_of(const SyncGroup& group) {
  return group.collective == Collective::all_gather ? Activity::all_gather : Activity::gradient_sync;
}

}  // namespace

int GradientSyncMessages::send(int from, int to, double bytes, std::span<const int> after, int phase,
                               bool both_ends_send) {
  const double sent = bytes / builder_.constants().sync_efficiency;
  const Activity activity = activity_of(group_);
  Channel channel = builder_.channel(from, to, activity);
  channel.both_ends_send = both_ends_send;
  return builder_.send(channel, sent, after, label_of(activity, group_, phase));
}

int GradientSyncMessages::join(const std::vector<int>& tasks, int device, int phase) {
  TaskLabel label = label_of(Activity::wait, group_, phase);
  label.device = device;
  return builder_.wait(0, tasks, label);
}

std::vector<int> add_gradient_sync(GraphBuilder& builder, GradientSync sync, const SyncGroup& group) {
  DTFM_ASSERT(builder.symmetry().represented(group.devices) > 1);
  const auto algorithm = std::find_if(std::begin(sync_algorithms), std::end(sync_algorithms),
                                      [&](const SyncAlgorithm& it) { return it.sync == sync; });
  DTFM_ASSERT(algorithm != std::end(sync_algorithms));
  return algorithm->add(builder, group);
}

}  // namespace dtfm::sim
