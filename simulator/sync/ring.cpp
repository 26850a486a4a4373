#include "simulator/sync/sync.hpp"

namespace dtfm::sim {

std::vector<int> GradientSyncMessages::ring_all_reduce(const std::vector<int>& devices,
                                                       std::vector<int> ready, double bytes, int phase) {
  const std::size_t n = devices.size();
  const std::vector<int> own = ready;
  for (std::size_t step = 0; step + 1 < n; ++step)
    for (int half = 0; half < 2; ++half) {  // of the phases: reduce-scatter, all-gather
      std::vector<int> received(n);
      for (std::size_t i = 0; i < n; ++i)
        received[(i + 1) % n] = send(devices[i], devices[(i + 1) % n], bytes / static_cast<double>(n),
                                     std::array{own[i], ready[i]}, phase);
      ready = received;
      ++phase;
    }
  return ready;
}

std::vector<int> ring(GraphBuilder& builder, const GradientSync& gradient_sync) {
  const std::vector<int> ready(gradient_sync.devices.size(), gradient_sync.start);
  return GradientSyncMessages(builder, gradient_sync)
      .ring_all_reduce(gradient_sync.devices, ready, gradient_sync.bytes, 0);
}

}  // namespace dtfm::sim
