// How a group of devices communicates: which messages a collective consists of. A collective is one file in
// core/collectives/ and one row of collectives.def (docs/add-a-collective.md). The simulator lowers the
// messages to tasks, the estimate times them with its own formulas, and exported programs execute them.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/index.hpp"

namespace dtfm {

/// How the replicas of a stage synchronize their gradients.
enum class GradientSync : unsigned char {
#define DTFM_COLLECTIVE(name, ...) name,
#include "core/collectives/collectives.def"
#undef DTFM_COLLECTIVE
  none,  // every replica updates with its own gradients
};

/// The all-reduces between two stages of a pipeline that share parameters (tied embeddings), and between the
/// devices of a stage.
extern const GradientSync pair_all_reduce, tensor_all_reduce;

/// What a group does. Sending is a message from the first member to the second. A reduce-scatter leaves each
/// of n members with the sum of one part of their data; an all-gather sends one part of the data from each
/// member to all. An all-reduce is both. In an all-to-all, every member sends another n-th of its data to
/// each member.
enum class Collective : unsigned char { all_reduce, reduce_scatter, all_gather, all_to_all, send };

/// A device, or several interchangeable ones.
struct CollectiveMember {
  int host = 0, site = 0;
  int count = 1;
};

struct CollectiveOptions {
  Collective collective = Collective::all_reduce;  // other than that only if the algorithm has_halves
  /// Only for algorithms that share by site: the number of shards per site, at most its members. With
  /// has_instances: the size of an instance. 0: as large as possible.
  int site_shards = 0;
};

/// From every device that `from` stands for to every other one that `to` stands for, and to itself only if it
/// stands for several.
struct CollectiveMessage {
  int from = 0, to = 0;  // indices of members
  int shard = 0;         // that it carries
  /// The part of the shard that it carries; no_index: all of it. A member passes chunks on: it sends one when
  /// its own data are ready and it has received the last chunk, and only to one device, even if `to` stands
  /// for several.
  int chunk = no_index;
};

/// Concurrent messages. A member sends a shard when it has received what earlier phases send it of this
/// shard. Phases with the same number are concurrent too.
struct CollectivePhase {
  int number = 0;
  bool adds = true;          // receivers add what they receive to what they have; otherwise it is the result
  bool is_blocking = false;  // a sender continues when its message has arrived
  /// Senders and receivers also send to each other in the opposite direction at the same time. Chunks go in
  /// one direction only, unless this is set. Others may do both if several collectives run at the same time.
  bool both_ends_send = false;
  std::vector<CollectiveMessage> messages = {};
};

/// The data are cut into equal shards, and every shard into equal chunks.
struct CollectiveMessages {
  int shards = 1, chunks = 1;
  std::vector<CollectivePhase> phases = {};
};

/// Which orders of the members differ.
enum class MemberRoles : unsigned char {
  equal,    // none: all members do the same
  first,    // those with different first members
  ring,     // all but rotations
  by_site,  // those with different rings of members, one of each site
  all_differ
};

struct GradientSyncTraits {
  GradientSync kind;
  std::string_view name;
  CollectiveMessages (*messages)(std::span<const CollectiveMember>, const CollectiveOptions&) = nullptr;
  bool in_jobs = true;         // a job may name it; only schemes and the simulator use the others
  bool is_candidate = false;   // the planner tries it if the job says `auto`
  bool uses_channels = false;  // messages between hosts are sent in parts (HostChannels)
  bool may_use_trees = false;  // NCCL all-reduces over trees instead where these have less latency
  /// Splits into a reduce-scatter and an all-gather. A sharded optimizer updates between the two.
  bool has_halves = false;
  bool has_instances = false;  // divides the members of every site into groups of equal size
  MemberRoles roles = MemberRoles::all_differ;

  /// Whether its time depends on the order of the pipelines.
  bool is_ordered() const { return roles != MemberRoles::equal; }
  /// Whether members sum shards inside their sites, and a sharded optimizer shares state only there (HSDP).
  bool shares_by_site() const { return roles == MemberRoles::by_site || has_instances; }
};

/// A row for each value, in the order of the enum.
std::span<const GradientSyncTraits> gradient_sync_table();
const GradientSyncTraits& traits(GradientSync sync);
std::string_view name_of(GradientSync sync);

/// The messages of a collective among `members`, at least two devices in all.
CollectiveMessages collective_messages(GradientSync sync, std::span<const CollectiveMember> members,
                                       const CollectiveOptions& options = {});

/// A shard, or one of its chunks.
struct CollectivePart {
  int shard = no_index, chunk = no_index;  // no shard: nothing; no chunk: all of the shard
};
/// What each of `members` members has the sum of after a reduce-scatter.
std::vector<CollectivePart> summed_parts(const CollectiveMessages& list, int members);

/// Returns the members of each instance of a sharded optimizer (Megatron-LM:
/// --num-distributed-optimizer-instances; FSDP2: a row of a mesh (replicate, shard)). Members are taken site
/// by site, in a site in their given order. `size`, the members of an instance, must divide their number; 0:
/// the largest size that divides the members of every site.
std::vector<std::vector<int>> optimizer_instances(std::span<const CollectiveMember> members, int size);
/// Reorders `order` so that values of the same group are adjacent. Groups, and the values of a group, keep
/// the order in which they first occur.
std::vector<int> grouped(std::span<const int> order, const std::function<int(int)>& group_of);

// For the files of collectives:

/// Number of devices that the members stand for.
int device_count(std::span<const CollectiveMember> members);
inline bool reduces(const CollectiveOptions& options) {
  return options.collective != Collective::all_gather;
}
inline bool gathers(const CollectiveOptions& options) {
  return options.collective != Collective::reduce_scatter;
}
/// Adds the phases of a collective of `shard`, in n chunks, around a ring of n members, numbered from
/// `number`: a reduce-scatter and an all-gather of n − 1 phases each (Patarasu and Yuan, 2009), or one of
/// them.
void add_ring(std::span<const int> ring, int shard, int number, bool both_ends_send,
              const CollectiveOptions& options, CollectiveMessages& result);

}  // namespace dtfm
