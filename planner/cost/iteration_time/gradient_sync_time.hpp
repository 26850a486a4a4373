// Time of gradient synchronization among the replicas of a stage.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "core/collectives/collective.hpp"
#include "planner/cost/iteration_time/network_cost.hpp"

namespace dtfm::cost {

/// With more classes of interchangeable replicas than this, replicas are classified by coarse kinds, which
/// ignore measured links. Chosen by hand: the time of an estimate grows with the square of the classes.
inline constexpr std::size_t max_sync_classes = 64;

/// Replicas that synchronize one shard of the gradients. A group stands for all shards whose replicas have
/// messages that cost the same and cross the same capacities. If two replicas both hold several shards, they
/// send the messages of these shards one after another.
struct ReplicaGroup {
  std::vector<int> devices;  // one of each pipeline, at least two, in the order of the pipelines
  std::vector<int> parts;    // by device: number of shards that it holds
  double bytes = 0;          // of a shard
  int count = 1;             // shards that the group stands for
  /// Of hierarchical synchronization: pieces of the shard in each site, at most the devices of the smallest.
  /// 0: as many as that.
  int site_shards = 0;
  /// Pieces that are synchronized one after another, so that each message stands for one of every piece
  /// (core/plan/gradient_pieces.hpp), and an all-reduce may use trees. 0: all of it at once, in a ring.
  double pieces = 0;
};

/// What bounds assume of a collective of n replicas. The defaults hold for every collective in which every
/// replica sends and receives at least two messages of 1 / n of the gradients, one after another, and all of
/// the gradients in total.
struct SyncPattern {
  enum class Traffic : unsigned char { any, to_each, around_ring };
  /// `to_each`: every replica sends 1 / n of the gradients to every other one, twice.
  Traffic traffic = Traffic::any;
  bool sends_all = false;               // a message has all gradients instead of 1 / n of them
  double (*messages)(int n) = nullptr;  // that follow one another; null: 2
  bool returns = false;                 // what crosses a pair of replicas also comes back
};
SyncPattern sync_pattern(GradientSync sync);

struct SyncTime {
  double seconds = 0;         // until the last replica has the sums
  double channel_busy_s = 0;  // of the busiest pair of sender and receiver: the sum of its messages
  double egress_usd = 0;
  /// When each device of the first group has the sums. Of interchangeable devices, all have the latest time.
  std::vector<double> ends_s;
  std::vector<std::pair<int, double>> link_bytes;  // by id of the shared capacity, ascending
};

/// Time of concurrent synchronizations. A message that crosses a shared capacity takes at least as long as
/// that capacity needs for all messages of the same phase. Throws Error for an algorithm that has no time
/// formula. For a half of an algorithm that has_halves, `ReplicaGroup::bytes` are those of the gradients or
/// of the parameters.
SyncTime gradient_sync_time(GradientSync sync, const Topology& topology, const NetworkCost& network,
                            std::span<const ReplicaGroup> groups, Collective part = Collective::all_reduce);

}  // namespace dtfm::cost
