// How the replicas of a stage synchronize their gradients. An algorithm is one file and one row of the table
// in sync.cpp (docs/add-a-gradient-sync-algorithm.md).
#pragma once

#include <array>
#include <span>
#include <vector>

#include "planner/core/gradient_sync.hpp"
#include "planner/core/host_channels.hpp"
#include "simulator/lowering/graph_builder.hpp"

namespace dtfm::sim {

/// Devices whose gradients are to be synchronized.
struct SyncGroup {
  std::vector<int> devices;  // those that represent all others (GraphBuilder::symmetry); two or more in all
  double bytes = 0;          // gradients per device
  int start = no_index;      // the task after which all devices have their gradients
  int layer = 0;             // the first layer, for labels
  int part = no_index;       // for labels, if a device synchronizes several parts of these layers
};

/// Adds the messages of an algorithm that jobs may name. Returns, for each device of the group, the task
/// after which it has the sum.
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
  /// Adds a ring all-reduce of `bytes` per device in 2 (n − 1) phases, numbered from `phase`. `ready`: by
  /// device, the task after which it has its gradients; before that it cannot add them to what it forwards.
  /// Returns, by device, the task after which it has the sum.
  std::vector<int> ring_all_reduce(const std::vector<int>& devices, std::vector<int> ready, double bytes,
                                   int phase);

 private:
  GraphBuilder& builder_;
  const SyncGroup& group_;
};

}  // namespace dtfm::sim
