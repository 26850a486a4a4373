#include <algorithm>
#include <map>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "simulator/sync/sync.hpp"

namespace dtfm::sim {
namespace {

/// The devices of every site, in the order in which they come.
std::vector<std::vector<int>> by_site(const Topology& topology, const std::vector<int>& devices) {
  std::vector<std::vector<int>> sites;
  for (const int device : devices) {
    const auto here = std::find_if(sites.begin(), sites.end(), [&](const std::vector<int>& site) {
      return topology.devices[at(site.front())].site == topology.devices[at(device)].site;
    });
    if (here == sites.end())
      sites.push_back({device});
    else
      here->push_back(device);
  }
  return sites;
}

}  // namespace

std::vector<int> hierarchical(GraphBuilder& builder, const SyncGroup& group) {
  GradientSyncMessages messages(builder, group);
  const DeviceSymmetry& symmetry = builder.symmetry();
  const auto sites = by_site(builder.topology(), group.devices);
  std::size_t shards = group.devices.size();  // those that representatives own
  int all_shards = symmetry.represented(group.devices);
  for (const auto& site : sites) {
    shards = std::min(shards, site.size());
    all_shards = std::min(all_shards, symmetry.represented(site));
  }
  if (group.shards > 0) {
    DTFM_ASSERT(symmetry.is_trivial() && group.shards <= all_shards);
    all_shards = group.shards;
    shards = at(group.shards);
  }
  const double shard = group.bytes / all_shards;
  std::map<int, std::size_t> position_of;  // by device
  for (std::size_t i = 0; i < group.devices.size(); ++i) position_of[group.devices[i]] = i;

  // [shard][site]: who owns the shard there, and the task after which it has the sum.
  std::vector<std::vector<int>> owners(shards), sums(shards);
  for (const auto& site : sites)
    for (std::size_t k = 0; k < shards; ++k) {
      owners[k].push_back(site[k]);
      std::vector<int> received = {group.ready[position_of[site[k]]]};
      for (const int device : site)
        for (const int receiver : symmetry.receivers(device, site[k]))
          if (receiver != no_index && group.collective != Collective::all_gather)
            received.push_back(
                messages.send(device, receiver, shard, group.ready[position_of[device]], 0, group.overlaps));
      sums[k].push_back(received.size() == 1 ? received.front() : messages.join(received, site[k], 0));
    }
  if (group.collective != Collective::all_gather)
    for (std::size_t k = 0; k < shards; ++k)
      sums[k] = messages.ring_collective(owners[k], sums[k], shard, 1, Collective::all_reduce);

  const int last_phase = 2 * static_cast<int>(sites.size()) - 1;
  std::vector<int> last(group.devices.size());
  for (std::size_t t = 0; t < sites.size(); ++t)
    for (const int device : sites[t]) {
      std::vector<int> received;
      for (std::size_t k = 0; k < shards; ++k) {
        if (device == sites[t][k]) received.push_back(sums[k][t]);
        for (const int receiver : symmetry.receivers(sites[t][k], device))
          if (receiver != no_index && group.collective != Collective::reduce_scatter)
            received.push_back(
                messages.send(sites[t][k], receiver, shard, sums[k][t], last_phase, group.overlaps));
      }
      if (received.empty()) received.push_back(group.ready[position_of[device]]);  // it owns no shard
      last[position_of[device]] =
          received.size() == 1 ? received.front() : messages.join(received, device, last_phase);
    }
  return last;
}

}  // namespace dtfm::sim
