#include "core/collectives/collective.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/rng.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;

namespace {

using Members = std::vector<CollectiveMember>;
using Sources = std::set<int>;  // members whose data a sum contains

/// What every member has of every shard and chunk.
struct Sums {
  const CollectiveMessages* list;
  std::map<std::array<int, 3>, Sources> of;  // [member, shard, chunk]

  std::vector<int> chunks_of(const CollectiveMessage& it) const {
    if (it.chunk != no_index) return {it.chunk};
    std::vector<int> all;
    for (int chunk = 0; chunk < list->chunks; ++chunk) all.push_back(chunk);
    return all;
  }
};

/// Members with random hosts and sites. Hosts belong to one site each.
Members random_members(Rng& rng, int count) {
  const int sites = 1 + static_cast<int>(rng.below(3)), hosts = 1 + static_cast<int>(rng.below(4));
  Members members;
  for (int i = 0; i < count; ++i) {
    const int site = static_cast<int>(rng.below(static_cast<std::uint32_t>(sites)));
    members.push_back({site * hosts + static_cast<int>(rng.below(static_cast<std::uint32_t>(hosts))), site});
  }
  return members;
}

/// A number of shards that the algorithm can have in every site of the members.
int random_shards(Rng& rng, const GradientSyncTraits& sync, const Members& members) {
  std::map<int, int> sizes;
  for (const CollectiveMember& it : members) ++sizes[it.site];
  const auto fits = [&](int shards) {
    return std::all_of(sizes.begin(), sizes.end(), [&](const auto& it) {
      return sync.has_instances ? it.second % shards == 0 : it.second >= shards;
    });
  };
  std::vector<int> all;
  for (int shards = 1; shards <= static_cast<int>(members.size()); ++shards)
    if (fits(shards)) all.push_back(shards);
  return all[rng.below(static_cast<std::uint32_t>(all.size()))];
}

/// Runs the messages. Messages of one phase, and of phases with the same number, see only what earlier ones
/// have brought.
void run(Sums& sums, const CollectiveMessages& list) {
  for (std::size_t i = 0; i < list.phases.size(); ++i) {
    const CollectivePhase& phase = list.phases[i];
    const auto before = sums.of;
    for (const CollectiveMessage& it : phase.messages)
      for (const int chunk : sums.chunks_of(it)) {
        const Sources& sent = before.at({it.from, it.shard, chunk});
        Sources& received = sums.of.at({it.to, it.shard, chunk});
        if (!phase.adds) {
          received = sent;
          continue;
        }
        for (const int source : sent) CHECK(received.insert(source).second);  // nothing is added twice
      }
  }
}

Sums own_data(const CollectiveMessages& list, int members) {
  Sums sums{&list, {}};
  for (int member = 0; member < members; ++member)
    for (int shard = 0; shard < list.shards; ++shard)
      for (int chunk = 0; chunk < list.chunks; ++chunk) sums.of[{member, shard, chunk}] = {member};
  return sums;
}

}  // namespace

TEST_CASE("a collective sums the data of all members exactly once") {
  Rng rng = Rng::for_task(1, 0);
  for (const GradientSyncTraits& row : gradient_sync_table())
    for (int count = 2; row.messages && count < 11; ++count)
      for (int i = 0; i < 5; ++i) {
        CAPTURE(row.name, count, i);
        const Members members = random_members(rng, count);
        const CollectiveMessages list = collective_messages(row.kind, members);
        Sums sums = own_data(list, count);
        run(sums, list);
        for (const auto& [place, sources] : sums.of) CHECK(sources.size() == at(count));
      }
}

TEST_CASE("a reduce-scatter leaves each sum with one member, and an all-gather distributes it") {
  Rng rng = Rng::for_task(2, 0);
  for (const GradientSyncTraits& row : gradient_sync_table())
    for (int count = 2; row.has_halves && count < 11; ++count)
      for (int i = 0; i < 5; ++i) {
        const Members members = random_members(rng, count);
        const int site_shards = row.shares_by_site() && i % 2 == 0 ? random_shards(rng, row, members) : 0;
        CAPTURE(row.name, count, i, site_shards);
        const auto list_of = [&](Collective collective) {
          return collective_messages(row.kind, members, {collective, site_shards});
        };
        const CollectiveMessages scatter = list_of(Collective::reduce_scatter),
                                 gather = list_of(Collective::all_gather);
        Sums sums = own_data(scatter, count);
        run(sums, scatter);
        const std::vector<CollectivePart> owned = summed_parts(scatter, count);
        // Of the owners of a shard and chunk.
        std::map<std::array<int, 2>, std::set<int>> sites_of;
        std::map<std::array<int, 2>, int> owners;
        for (auto& [place, sources] : sums.of) {
          const auto& [member, shard, chunk] = place;
          const CollectivePart& part = owned[at(member)];
          const bool is_owned = part.shard == shard && (part.chunk == no_index || part.chunk == chunk);
          CHECK((sources.size() == at(count)) == is_owned);
          if (is_owned) {
            const int site = row.shares_by_site() ? members[at(member)].site : 0;
            ++owners[{shard, chunk}];
            CHECK((sites_of[{shard, chunk}].insert(site).second || row.has_instances));
          }
          if (!is_owned) sources.clear();
        }
        CHECK(sites_of.size() == at(scatter.shards * scatter.chunks));
        for (const auto& [part, number] : owners)
          CHECK((!row.has_instances || number == count / scatter.shards));
        run(sums, gather);
        for (const auto& [place, sources] : sums.of) CHECK(sources.size() == at(count));
      }
}

TEST_CASE("messages are in one phase per step, and receivers do not change what they send in it") {
  Rng rng = Rng::for_task(3, 0);
  for (const GradientSyncTraits& row : gradient_sync_table())
    for (int count = 2; row.messages && count < 11; ++count) {
      CAPTURE(row.name, count);
      const CollectiveMessages list = collective_messages(row.kind, random_members(rng, count));
      std::map<int, std::vector<const CollectiveMessage*>> by_number;
      for (const CollectivePhase& phase : list.phases)
        for (const CollectiveMessage& it : phase.messages) by_number[phase.number].push_back(&it);
      for (const auto& [number, messages] : by_number)
        for (const CollectiveMessage* sent : messages)
          for (const CollectiveMessage* received : messages)
            CHECK_FALSE((sent->from == received->to && sent->shard == received->shard &&
                         (sent->chunk == received->chunk)));
    }
}

// Sites a and b in turn, all members on hosts of their own except 0 and 4, on one.
TEST_CASE("instances are consecutive members of a site, and their rings enter each host once") {
  const Members members = {{0, 0}, {1, 1}, {2, 0}, {3, 1}, {0, 0}, {5, 1}, {6, 0}, {7, 1}};
  using Instances = std::vector<std::vector<int>>;
  CHECK(optimizer_instances(members, 0) == Instances{{0, 2, 4, 6}, {1, 3, 5, 7}});
  CHECK(optimizer_instances(members, 2) == Instances{{0, 2}, {4, 6}, {1, 3}, {5, 7}});
  const CollectiveMessages list =
      collective_messages(GradientSync::hierarchical_ring, members, {Collective::all_gather});
  CHECK(list.shards == 4);
  CHECK(list.chunks == 2);
  std::vector<std::pair<int, int>> first;  // messages of the first instance
  for (const CollectiveMessage& it : list.phases.front().messages) first.emplace_back(it.from, it.shard);
  CHECK(first == std::vector<std::pair<int, int>>{{0, 0}, {4, 2}, {2, 1}, {6, 3}});
}
