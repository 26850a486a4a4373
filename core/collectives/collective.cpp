#include "core/collectives/collective.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/kind_table.hpp"

namespace dtfm {

#define DTFM_COLLECTIVE(function, ...) \
  CollectiveMessages function(std::span<const CollectiveMember>, const CollectiveOptions&);
#include "core/collectives/collectives.def"
#undef DTFM_COLLECTIVE

namespace {

constexpr auto gradient_syncs = std::to_array<GradientSyncTraits>({
#define DTFM_COLLECTIVE(function, first, ...) \
  {.kind = GradientSync::function, first, .messages = function, __VA_ARGS__},
#include "core/collectives/collectives.def"
#undef DTFM_COLLECTIVE
    {.kind = GradientSync::none, .name = "none", .in_jobs = false, .roles = MemberRoles::equal},
});
static_assert(has_row_for_each(gradient_syncs, GradientSync::none));

}  // namespace

const GradientSync pair_all_reduce = GradientSync::ring, tensor_all_reduce = GradientSync::ring;

std::span<const GradientSyncTraits> gradient_sync_table() {
  return gradient_syncs;
}

const GradientSyncTraits& traits(GradientSync sync) {
  return row_of(gradient_syncs, sync);
}

std::string_view name_of(GradientSync sync) {
  return traits(sync).name;
}

CollectiveMessages collective_messages(GradientSync sync, std::span<const CollectiveMember> members,
                                       const CollectiveOptions& options) {
  const GradientSyncTraits& row = traits(sync);
  DTFM_ASSERT(row.messages && device_count(members) > 1 && options.collective != Collective::send);
  DTFM_ASSERT(options.collective == Collective::all_reduce || row.has_halves);
  return row.messages(members, options);
}

std::vector<CollectivePart> summed_parts(const CollectiveMessages& list, int members) {
  const std::size_t shards = at(list.shards), chunks = at(list.chunks);
  // [member][shard][chunk]: data of so many members.
  std::vector<int> summed(at(members) * shards * chunks, 1);
  const auto first_of = [&](int member, const CollectiveMessage& it) {
    return (at(member) * shards + at(it.shard)) * chunks + (it.chunk == no_index ? 0 : at(it.chunk));
  };
  for (const CollectivePhase& phase : list.phases)
    for (const CollectiveMessage& it : phase.messages)
      for (std::size_t chunk = 0; chunk < (it.chunk == no_index ? chunks : 1); ++chunk) {
        int& received = summed[first_of(it.to, it) + chunk];
        received = (phase.adds ? received : 0) + summed[first_of(it.from, it) + chunk];
      }
  std::vector<CollectivePart> parts(at(members));
  for (std::size_t member = 0; member < parts.size(); ++member)
    for (std::size_t i = 0; i < shards * chunks; ++i)
      if (summed[member * shards * chunks + i] == members) {
        const bool is_whole = parts[member].shard != no_index || chunks == 1;
        parts[member] = {static_cast<int>(i / chunks), is_whole ? no_index : static_cast<int>(i % chunks)};
      }
  return parts;
}

std::vector<int> grouped(std::span<const int> order, const std::function<int(int)>& group_of) {
  std::map<int, int> numbers;  // of groups
  for (const int it : order) numbers.emplace(group_of(it), static_cast<int>(numbers.size()));
  std::vector<int> result(order.begin(), order.end());
  std::stable_sort(result.begin(), result.end(),
                   [&](int a, int b) { return numbers[group_of(a)] < numbers[group_of(b)]; });
  return result;
}

std::vector<std::vector<int>> optimizer_instances(std::span<const CollectiveMember> members, int size) {
  std::vector<int> order(members.size());
  std::iota(order.begin(), order.end(), 0);
  order = grouped(order, [&](int member) { return members[at(member)].site; });
  if (size == 0) {
    std::map<int, int> counts;  // by site
    for (const CollectiveMember& it : members) ++counts[it.site];
    for (const auto& [site, count] : counts) size = std::gcd(size, count);
  }
  DTFM_ASSERT(order.size() % at(size) == 0);
  std::vector<std::vector<int>> instances;
  for (auto first = order.begin(); first != order.end(); first += size)
    instances.emplace_back(first, first + size);
  return instances;
}

int device_count(std::span<const CollectiveMember> members) {
  int sum = 0;
  for (const CollectiveMember& it : members) sum += it.count;
  return sum;
}

void add_ring(std::span<const int> ring, int shard, int number, bool both_ends_send,
              const CollectiveOptions& options, CollectiveMessages& result) {
  const int n = static_cast<int>(ring.size());
  const auto add_half = [&](bool adds) {
    for (int step = 0; step + 1 < n; ++step) {
      CollectivePhase phase{number + (adds ? 0 : n - 1) + step, adds, false, both_ends_send};
      for (int i = 0; i < n; ++i)
        phase.messages.push_back(
            {ring[at(i)], ring[at((i + 1) % n)], shard, (i + n - step + (adds ? 0 : 1)) % n});
      result.phases.push_back(std::move(phase));
    }
  };
  if (reduces(options)) add_half(true);
  if (gathers(options)) add_half(false);
}

}  // namespace dtfm
