#include <algorithm>
#include <set>

#include "core/base/error.hpp"
#include "core/collectives/collective.hpp"

namespace dtfm {

/// Every instance reduce-scatters around a ring of its k members, which enters each host only once. The
/// owners of the same shard in all t instances all-reduce it around a ring. Then each instance all-gathers
/// around its ring. Inside: 2 (k − 1)(a + S / (k B)), across: 2 (t − 1)(a' + S / (k t B')).
CollectiveMessages hierarchical_ring(std::span<const CollectiveMember> members,
                                     const CollectiveOptions& options) {
  DTFM_ASSERT(device_count(members) == static_cast<int>(members.size()));
  const std::vector<std::vector<int>> instances = optimizer_instances(members, options.site_shards);
  const int k = static_cast<int>(instances.front().size()), t = static_cast<int>(instances.size());
  CollectiveMessages result{.shards = k, .chunks = t};
  const auto host_of = [&](int member) { return members[at(member)].host; };
  const auto has_two_hosts = [&](const std::vector<int>& ring) {
    std::set<int> hosts;
    for (const int member : ring) hosts.insert(host_of(member));
    return hosts.size() == 2;
  };
  const auto add_inside = [&](const std::vector<int>& instance, bool adds) {
    const std::vector<int> ring = grouped(instance, host_of);
    std::vector<int> shards;  // by position in the ring
    for (const int member : ring)
      shards.push_back(
          static_cast<int>(std::find(instance.begin(), instance.end(), member) - instance.begin()));
    for (int step = 0; step + 1 < k; ++step) {
      CollectivePhase phase{(adds ? 0 : k - 1 + 2 * (t - 1)) + step, adds, false, has_two_hosts(ring)};
      for (int i = 0; i < k; ++i)
        phase.messages.push_back(
            {ring[at(i)], ring[at((i + 1) % k)], shards[at((i + k - step - (adds ? 1 : 0)) % k)]});
      result.phases.push_back(std::move(phase));
    }
  };
  for (const std::vector<int>& instance : instances)
    if (reduces(options)) add_inside(instance, true);
  for (int shard = 0; shard < k && reduces(options); ++shard) {
    std::vector<int> owners;
    for (const std::vector<int>& instance : instances) owners.push_back(instance[at(shard)]);
    owners = grouped(owners, host_of);
    add_ring(owners, shard, k - 1, has_two_hosts(owners), {}, result);
  }
  for (const std::vector<int>& instance : instances)
    if (gathers(options)) add_inside(instance, false);
  std::stable_sort(result.phases.begin(), result.phases.end(),
                   [](const CollectivePhase& a, const CollectivePhase& b) { return a.number < b.number; });
  return result;
}

}  // namespace dtfm
