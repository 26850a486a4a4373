// Which peer serves which stage, so that the slowest stage is as fast as possible.
#pragma once

#include <map>
#include <span>
#include <vector>

namespace dtfm::sim {

/// Peers that are alike: how many, and the samples per second of one of them at each stage.
struct PeerKind {
  int count = 0;
  std::vector<double> rates;
};

struct Assignment {
  std::vector<std::vector<int>> counts;  // [stage][kind]
  double samples_per_s = 0;              // of the slowest stage
  double bound = 0;                      // no assignment is faster; the same if this one is the best
  bool is_optimal = true;
};

/// One kind: always a best one (each peer goes to the stage that is slowest: whoever has fewer peers at a
/// stage than this, before a step that raises the least, is slower). Several: a best one, by dynamic
/// programming over stages, where the product of their counts + 1 is at most `max_states`; else peers go
/// the same way, the fastest first, and the bound is that of the dual of the linear program: for weights y ≥
/// 0 of sum 1, min over s of X_s ≤ Σ_s y_s X_s ≤ Σ_peers max over s of y_s rate; y_s is in proportion to
/// the time of a sample at stage s. All kinds have rates of the same stages, at least one, above 0.
Assignment best_assignment(std::span<const PeerKind> kinds);

inline constexpr int max_states = 256;

}  // namespace dtfm::sim
