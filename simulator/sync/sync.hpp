// How the replicas of a stage synchronize their gradients. An algorithm is one file and one row of the table
// in sync.cpp (docs/add-a-gradient-sync-algorithm.md).
#pragma once

#include <array>
#include <span>
#include <vector>

#include "core/plan/gradient_sync.hpp"
#include "core/cluster/host_channels.hpp"
#include "simulator/lowering/graph_builder.hpp"

namespace dtfm::sim {

/// What a group does. A reduce-scatter leaves each of n devices with the sum of 1 / n of the gradients; an
/// all-gather sends 1 / n of the parameters from each device to all. An all-reduce is both; the phases of an
/// all-gather are numbered like those of its second half.
enum class Collective : unsigned char { all_reduce, reduce_scatter, all_gather };

/// Devices whose gradients are to be synchronized.
struct SyncGroup {
  std::vector<int> devices;  // those that represent all others (GraphBuilder::symmetry); two or more in all
  double bytes = 0;          // gradients, or parameters, per device
  std::vector<int> ready;    // for each device, the task after which it has them
  int layer = 0;             // the first layer, for labels
  int part = no_index;       // for labels, if a device synchronizes several parts of these layers
  Collective collective = Collective::all_reduce;  // other than that only if the algorithm has_halves
  int shards = 0;         // hierarchical: how many each site has, at most its devices; 0: as many as possible
  bool overlaps = false;  // the same devices may synchronize other layers at the same time
};

/// Adds the messages of an algorithm that jobs may name. Returns, for each device of the group, the task
/// after which it has the result.
std::vector<int> add_gradient_sync(GraphBuilder& builder, GradientSync sync, const SyncGroup& group);

/// Adds messages and joins with their labels, for the algorithms.
class GradientSyncMessages {
 public:
  GradientSyncMessages(GraphBuilder& builder, const SyncGroup& group) : builder_(builder), group_(group) {}

  /// Sends `bytes` of gradients. The message is larger if the calibrated sync efficiency is below 1.
  /// `both_ends_send`: the receiver sends to the sender at the same time.
  int send(int from, int to, double bytes, std::span<const int> after, int phase,
           bool both_ends_send = false);
  int send(int from, int to, double bytes, int after, int phase, bool both_ends_send = false) {
    return send(from, to, bytes, std::array{after}, phase, both_ends_send);
  }
  int join(const std::vector<int>& tasks, int device, int phase);
  /// Adds a collective of `bytes` per device around a ring, in n − 1 phases or, of an all-reduce, 2 (n − 1),
  /// numbered from `phase`. `ready`: by device, the task after which it has its gradients; before that it
  /// cannot add them to what it forwards. Returns, by device, the task after which it has the result.
  std::vector<int> ring_collective(const std::vector<int>& devices, std::vector<int> ready, double bytes,
                                   int phase, Collective collective);

 private:
  GraphBuilder& builder_;
  const SyncGroup& group_;
};

}  // namespace dtfm::sim
