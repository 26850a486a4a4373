#include "simulator/sync/sync.hpp"

namespace dtfm::sim {

std::vector<int> GradientSyncMessages::ring_all_reduce(const std::vector<int>& devices,
                                                       std::vector<int> ready, double bytes, int phase) {
  const std::size_t n = devices.size();
  const std::vector<int> own = ready;
  const HostChannels channels(builder_.topology(), devices);
  for (std::size_t step = 0; step + 1 < n; ++step)
    for (int half = 0; half < 2; ++half) {  // of the phases: reduce-scatter, all-gather
      std::vector<int> received(n);
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t from = channels.order()[i], to = channels.order()[(i + 1) % n];
        received[to] = send(channels, devices[from], devices[to], bytes / static_cast<double>(n),
                            std::array{own[from], ready[from]}, phase);
      }
      ready = received;
      ++phase;
    }
  return ready;
}

std::vector<int> ring(GraphBuilder& builder, const SyncGroup& group) {
  const std::vector<int> ready(group.devices.size(), group.start);
  return GradientSyncMessages(builder, group).ring_all_reduce(group.devices, ready, group.bytes, 0);
}

}  // namespace dtfm::sim
