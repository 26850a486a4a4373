// The all-reduce of a stage's gradients among peers of different bandwidths: a butterfly, in which every peer
// sums one shard for all others, with shard sizes chosen so that the slowest peer is as fast as possible
// (Ryabinin et al., Moshpit SGD, arXiv 2103.03239, and hivemind, which SWARM uses for averaging).
#pragma once

#include <span>
#include <vector>

namespace dtfm::sim {

struct Butterfly {
  std::vector<double> shards;  // [peer]: share of the gradients that it sums; the shares add up to 1
  double seconds = 0;          // of the slowest: max over i of V (1 + (G − 2) w_i) ÷ b_i
};

/// The all-reduce of V = `bytes` among G peers, of which peer i can send and receive `bytes_per_s[i]` > 0.
/// Peer i sends V (1 − w_i) to the peers that sum these shards, then its own summed shard to all others,
/// V w_i (G − 1); it receives as much. Takes 0 s for fewer than two peers.
Butterfly butterfly(double bytes, std::span<const double> bytes_per_s);

/// The bytes that a peer with shard w_i sends (and receives), as a multiple of V: 1 + (G − 2) w_i.
inline double butterfly_share(double shard, int peers) {
  return 1 + (peers - 2) * shard;
}

}  // namespace dtfm::sim
