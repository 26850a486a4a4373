// Assigns peers to stages so that the slowest stage is as fast as possible.
#pragma once

#include <map>
#include <span>
#include <vector>

namespace dtfm::sim {

/// A set of identical peers.
struct PeerKind {
  int count = 0;
  std::vector<double> rates;  // [stage]: samples per second of one peer
};

struct Assignment {
  std::vector<std::vector<int>> counts;  // [stage][kind]
  double samples_per_s = 0;              // of the slowest stage
  double bound = 0;                      // upper bound of all assignments; equals the rate if optimal
  bool is_optimal = true;
};

/// Returns an assignment of peers to stages that maximizes the throughput of the slowest stage.
///
/// With one kind of peers the greedy assignment, which gives each peer to the currently slowest stage, is
/// optimal: until the slowest stage reaches a given rate, no stage gets more peers than that rate requires.
/// With several kinds, dynamic programming over the stages finds an optimum if the product of (count + 1)
/// over the kinds is at most `max_states`. Otherwise the assignment is greedy, fastest kinds first, and the
/// bound is that of the dual of the linear program: for weights y ≥ 0 of sum 1,
/// min over s of X_s ≤ Σ_s y_s X_s ≤ Σ_peers max over s of y_s rate; y_s is proportional to the time of a
/// sample at stage s. All kinds must have rates above 0 for the same stages, at least one.
Assignment best_assignment(std::span<const PeerKind> kinds);

inline constexpr int max_states = 256;

}  // namespace dtfm::sim
