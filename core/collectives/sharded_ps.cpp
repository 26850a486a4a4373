#include "core/collectives/collective.hpp"

namespace dtfm {

/// Every device sums a shard of all, then sends it to all. For n devices that send and receive at rate B with
/// latency a, and S bytes: 2 (a + (n − 1) S / (n B)).
CollectiveMessages sharded_ps(std::span<const CollectiveMember> members, const CollectiveOptions& options) {
  CollectivePhase reduce{.number = 0, .both_ends_send = true};
  CollectivePhase gather{.number = 1, .adds = false, .both_ends_send = true};
  const int n = static_cast<int>(members.size());
  for (int from = 0; from < n; ++from)
    for (int step = 1; step <= n; ++step) {
      const int to = (from + step) % n;
      if (to == from && members[at(to)].count == 1) continue;
      reduce.messages.push_back({from, to, to});
      gather.messages.push_back({from, to, from});
    }
  CollectiveMessages result{.shards = device_count(members)};
  if (reduces(options)) result.phases.push_back(std::move(reduce));
  if (gathers(options)) result.phases.push_back(std::move(gather));
  return result;
}

}  // namespace dtfm
