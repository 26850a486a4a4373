#include "simulator/sync/sync.hpp"

namespace dtfm::sim {

std::vector<int> sharded_ps(GraphBuilder& builder, const SyncGroup& group) {
  GradientSyncMessages messages(builder, group);
  const std::vector<int>& devices = group.devices;
  const DeviceSymmetry& symmetry = builder.symmetry();
  const std::size_t n = devices.size();
  const double shard = group.bytes / symmetry.represented(devices);
  std::vector<int> ready = group.ready;
  const int first = group.collective == Collective::all_gather ? 1 : 0,
            last = group.collective == Collective::reduce_scatter ? 0 : 1;
  for (int phase = first; phase <= last; ++phase) {
    std::vector<std::vector<int>> received;
    for (const int own : ready) received.push_back({own});
    for (std::size_t from = 0; from < n; ++from)
      for (std::size_t step = 1; step <= n; ++step) {
        const std::size_t to = (from + step) % n;
        for (const int receiver : symmetry.receivers(devices[from], devices[to]))
          if (receiver != no_index)
            received[to].push_back(messages.send(devices[from], receiver, shard, ready[from], phase, true));
      }
    for (std::size_t i = 0; i < n; ++i) ready[i] = messages.join(received[i], devices[i], phase);
  }
  return ready;
}

}  // namespace dtfm::sim
