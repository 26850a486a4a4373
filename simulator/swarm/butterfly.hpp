// The all-reduce of a stage's gradients among peers of different bandwidths: a butterfly, in which every peer
// sums one shard for all others, with shard sizes chosen so that the slowest peer is as fast as possible
// (Ryabinin et al., Moshpit SGD, arXiv 2103.03239, and hivemind, which SWARM uses for averaging).
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/plan/problem.hpp"

namespace dtfm::sim {

struct Butterfly {
  std::vector<double> shards;  // [peer]: share of the gradients that it sums; the shares add up to 1
  double seconds = 0;          // of the slowest: max over i of V (1 + (G − 2) w_i) ÷ b_i
};

/// The all-reduce of V = `bytes` among G peers, of which peer i can send and receive `bytes_per_s[i]` > 0.
/// Peer i sends V (1 − w_i) to the peers that sum these shards, then its own summed shard to all others,
/// V w_i (G − 1); it receives as much. Takes 0 s for fewer than two peers.
Butterfly butterfly(double bytes, std::span<const double> bytes_per_s);

/// The rate (bytes per second) at which each of `members` (devices) can send and receive in an all-reduce
/// with the others: the minimum of the sums of its pairs' bandwidths in each direction (a `shared_by_sender`
/// entry counts once) and of its shares of the uplinks and downlinks of device, host and site, times the
/// network efficiency. Capacities of pairs of sites are not considered.
std::vector<double> all_reduce_rates(const Problem& problem, std::span<const int> members);

/// Lower bound (s) of the all-reduce among `members` given by the slowest pair, or by the slowest link entry
/// that a sender shares: i sends `bytes` × (w_i + w_j) to j, its gradients of the shard that j sums and the
/// sum of its own shard.
double slowest_pair_s(const Problem& problem, std::span<const int> members, double bytes,
                      std::span<const double> shards);

/// The all-reduce of the gradients of a stage. Every pair of members exchanges two messages, one after the
/// other: shards to be summed, then the sums. This is why latency, overhead and compression count twice.
struct StageAllReduce {
  StageAllReduce() = default;
  /// Of `bytes`, between devices; each needs `compression_s` to compress and decompress them. Takes 0 s for
  /// fewer than two.
  StageAllReduce(const Problem& problem, std::vector<int> members, double bytes, double compression_s);

  /// Calls `use` with the bytes that the members at one site send to those at another, or the same: peer i
  /// sends V (w_i + w_j) bytes to peer j.
  void for_each_site_pair(const std::function<void(int from, int to, double bytes)>& use) const;

  std::vector<int> members;
  double bytes = 0, seconds = 0;

 private:
  std::vector<double> site_shards_, site_members_;  // [site]: sums over the members at the site
};

}  // namespace dtfm::sim
