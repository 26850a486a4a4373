// How the replicas of a stage add up their gradients. One file each; sync.cpp has the table.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "planner/core/gradient_sync.hpp"
#include "simulator/lowering/graph_builder.hpp"

namespace dtfm::sim {

/// Devices whose gradients are to be synchronized.
struct SyncGroup {
  std::vector<int> devices;  // at least two
  double bytes = 0;          // of the gradients that each of them has
  int start = no_index;      // the task after which all of them have theirs
  int layer = 0;             // the first one, for the labels
  int part = no_index;       // of the shards, for the labels: where a device has several
};

// All add the messages of an exchange and return, of each device, the task after which it has the sum. With n
// devices, S bytes, B the rate of a device in and out and a the latency:

/// Every device sums a shard of all, then sends it to all: 2 (a + (n − 1) S / (n B)).
std::vector<int> sharded_ps(GraphBuilder& builder, const SyncGroup& group);
/// The first device sums all, then sends the sum to all: 2 (a + (n − 1) S / B).
std::vector<int> central_ps(GraphBuilder& builder, const SyncGroup& group);
/// Reduce-scatter and all-gather around a ring (Patarasu and Yuan, 2009): 2 (n − 1) (a + S / (n B)).
std::vector<int> ring(GraphBuilder& builder, const SyncGroup& group);
/// A binomial tree to the first device, and back: at most 2 ⌈log2 n⌉ (a + S / B).
std::vector<int> tree(GraphBuilder& builder, const SyncGroup& group);
/// Inside a site first: as many devices of every site as the smallest site has sum a shard each; those of the
/// same shard make a ring across the sites; then each sends its shard to all of its site. With t sites of k:
/// 2 (a + (k − 1) S / (k B)) inside, 2 (t − 1) (a' + S / (k t B')) across.
std::vector<int> hierarchical(GraphBuilder& builder, const SyncGroup& group);

/// `sync` is one that jobs may name.
std::vector<int> add_gradient_sync(GraphBuilder& builder, GradientSync sync, const SyncGroup& group);

/// The messages of exchanges, for the files of this folder.
class GradientSyncMessages {
 public:
  GradientSyncMessages(GraphBuilder& builder, const SyncGroup& group) : builder_(builder), group_(group) {}

  /// `bytes` of gradients; the message has more, if the constants' sync efficiency says so.
  int send(int from, int to, double bytes, std::span<const int> after, int phase);
  int send(int from, int to, double bytes, int after, int phase) {
    return send(from, to, bytes, std::array{after}, phase);
  }
  int join(const std::vector<int>& tasks, int device, int phase);
  /// A ring of `devices`, which have what task `ready` of each says; the last of 2 (n − 1) phases of each.
  /// Who does not have its own part yet cannot add it to what it has to pass on.
  std::vector<int> ring_all_reduce(const std::vector<int>& devices, std::vector<int> ready, double bytes,
                                   int phase);

 private:
  GraphBuilder& builder_;
  const SyncGroup& group_;
};

}  // namespace dtfm::sim
