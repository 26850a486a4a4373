#include "simulator/sync/sync.hpp"

namespace dtfm::sim {

std::vector<int> tree(GraphBuilder& builder, const SyncGroup& group) {
  GradientSyncMessages messages(builder, group);
  const std::vector<int>& devices = group.devices;
  const std::size_t n = devices.size();
  std::vector<int> ready = group.ready;
  int phase = 0;
  std::size_t reach = 1;
  for (; reach < n; reach *= 2, ++phase)
    for (std::size_t i = reach; i < n; i += 2 * reach) {
      const int sum =
          messages.send(devices[i], devices[i - reach], group.bytes, ready[i], phase, group.overlaps);
      ready[i - reach] = messages.join({ready[i - reach], sum}, devices[i - reach], phase);
    }
  // Who has the sum sends it to one device after the other, the root of the largest part first.
  for (reach /= 2; reach > 0; reach /= 2, ++phase)
    for (std::size_t i = 0; i + reach < n; i += 2 * reach)
      ready[i] = ready[i + reach] =
          messages.send(devices[i], devices[i + reach], group.bytes, ready[i], phase, group.overlaps);
  return ready;
}

}  // namespace dtfm::sim
