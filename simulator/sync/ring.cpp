#include "simulator/sync/sync.hpp"

namespace dtfm::sim {

std::vector<int> GradientSyncMessages::ring_collective(const std::vector<int>& devices,
                                                       std::vector<int> ready, double bytes, int phase,
                                                       Collective collective) {
  const std::size_t n = devices.size();
  const std::vector<int> own = ready;
  const HostChannels channels(builder_.topology(), devices);
  // Between two hosts, the first sends to the second on the connections on which the second sends to the
  // first.
  const bool both_ends_send = channels.hosts() == 2;
  std::vector<std::vector<std::pair<int, int>>> parts;  // of the messages from the i-th device of the ring
  for (std::size_t i = 0; i < n; ++i) parts.push_back(channels.next_in_ring(i));
  const int halves = collective == Collective::all_reduce ? 2 : 1;
  for (std::size_t step = 0; step + 1 < n; ++step)
    for (int half = 0; half < halves; ++half) {  // of the phases: reduce-scatter, all-gather
      std::vector<int> received(n);
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t from = channels.order()[i], to = channels.order()[(i + 1) % n];
        std::vector<int> sent;
        for (const auto& [sender, receiver] : parts[i])
          sent.push_back(send(sender, receiver, bytes / static_cast<double>(n * parts[i].size()),
                              std::array{own[from], ready[from]}, phase, both_ends_send));
        received[to] = sent.size() == 1 ? sent.front() : join(sent, devices[to], phase);
      }
      ready = received;
      ++phase;
    }
  return ready;
}

std::vector<int> ring(GraphBuilder& builder, const SyncGroup& group) {
  const int phases = static_cast<int>(group.devices.size()) - 1;  // of each half
  return GradientSyncMessages(builder, group)
      .ring_collective(group.devices, group.ready, group.bytes,
                       group.collective == Collective::all_gather ? phases : 0, group.collective);
}

}  // namespace dtfm::sim
