#include <algorithm>

#include "core/base/error.hpp"
#include "core/collectives/collective.hpp"

namespace dtfm {
namespace {

/// The members of every site, in the order in which they come.
std::vector<std::vector<int>> by_site(std::span<const CollectiveMember> members) {
  std::vector<std::vector<int>> sites;
  for (int i = 0; at(i) < members.size(); ++i) {
    const auto here = std::find_if(sites.begin(), sites.end(), [&](const std::vector<int>& site) {
      return members[at(site.front())].site == members[at(i)].site;
    });
    if (here == sites.end())
      sites.push_back({i});
    else
      here->push_back(i);
  }
  return sites;
}

}  // namespace

/// The data are cut into as many shards as the smallest site has devices. In every site one device per shard
/// sums it, those of the same shard form a ring across the sites, and then each sends its shard to all of its
/// site. With t sites of k devices: 2 (a + (k − 1) S / (k B)) inside, 2 (t − 1) (a' + S / (k t B')) across.
CollectiveMessages hierarchical(std::span<const CollectiveMember> members, const CollectiveOptions& options) {
  const std::vector<std::vector<int>> sites = by_site(members);
  const int site_count = static_cast<int>(sites.size());
  int shards = static_cast<int>(members.size());  // those that members own
  CollectiveMessages result{.shards = device_count(members), .chunks = site_count};
  for (const std::vector<int>& site : sites) {
    shards = std::min(shards, static_cast<int>(site.size()));
    int devices = 0;
    for (const int member : site) devices += members[at(member)].count;
    result.shards = std::min(result.shards, devices);
  }
  if (options.site_shards > 0) {
    DTFM_ASSERT(device_count(members) == static_cast<int>(members.size()));
    DTFM_ASSERT(options.site_shards <= result.shards);
    result.shards = shards = options.site_shards;
  }
  const auto sends_to = [&](int from, int to) { return from != to || members[at(to)].count > 1; };

  for (const std::vector<int>& site : sites)
    for (int shard = 0; shard < shards && reduces(options); ++shard) {
      CollectivePhase inside{.number = 0};
      for (const int member : site)
        if (sends_to(member, site[at(shard)])) inside.messages.push_back({member, site[at(shard)], shard});
      result.phases.push_back(std::move(inside));
    }
  for (int shard = 0; shard < shards && reduces(options); ++shard) {
    std::vector<int> owners;
    for (const std::vector<int>& site : sites) owners.push_back(site[at(shard)]);
    add_ring(owners, shard, 1, site_count == 2, {}, result);
  }
  for (const std::vector<int>& site : sites)
    for (const int member : site) {
      if (!gathers(options)) continue;
      CollectivePhase inside{.number = 2 * site_count - 1, .adds = false};
      for (int shard = 0; shard < shards; ++shard)
        if (sends_to(site[at(shard)], member)) inside.messages.push_back({site[at(shard)], member, shard});
      result.phases.push_back(std::move(inside));
    }
  return result;
}

}  // namespace dtfm
