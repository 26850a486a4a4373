// The all-reduce of a stage's gradients among peers of unlike bandwidth: a butterfly (every peer adds up a
// shard for all others) whose shards are weighted so that the slowest is as fast as possible (Ryabinin et
// al., Moshpit SGD, arXiv 2103.03239, and hivemind, which SWARM averages with).
#pragma once

#include <span>
#include <vector>

namespace dtfm::sim {

struct Butterfly {
  std::vector<double> shards;  // of each peer, the share of the gradients that it adds up; 1 in all
  double seconds = 0;          // of the slowest: max over i of V (1 + (G − 2) w_i) ÷ b_i
};

/// Of `bytes` among peers that move `bytes_per_s[i]` > 0 each. Peer i sends what the others add up, V (1 −
/// w_i), then its shard to all of them, V w_i (G − 1); it receives as much. Nothing for less than two peers.
Butterfly butterfly(double bytes, std::span<const double> bytes_per_s);

/// Of V, what peer i of G sends, and receives, of which w_i it adds up: 1 + (G − 2) w_i.
inline double butterfly_share(double shard, int peers) {
  return 1 + (peers - 2) * shard;
}

}  // namespace dtfm::sim
