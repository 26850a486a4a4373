#include "simulator/sync/sync.hpp"

namespace dtfm::sim {

std::vector<int> central_ps(GraphBuilder& builder, const SyncGroup& group) {
  GradientSyncMessages messages(builder, group);
  const std::vector<int>& devices = group.devices;
  std::vector<int> received = {group.ready[0]};
  for (std::size_t i = 1; i < devices.size(); ++i)
    received.push_back(messages.send(devices[i], devices[0], group.bytes, group.ready[i], 0, group.overlaps));
  std::vector<int> last = {messages.join(received, devices[0], 0)};
  for (std::size_t i = 1; i < devices.size(); ++i)
    last.push_back(messages.send(devices[0], devices[i], group.bytes, last[0], 1, group.overlaps));
  return last;
}

}  // namespace dtfm::sim
