// Peers that lie, and which calls a swarm has computed a second time to find them.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/core/rng.hpp"
#include "simulator/report/verification_report.hpp"

namespace dtfm::sim {

/// Every call is verified with the same probability, by itself. A peer that lies corrupts all calls that it
/// is asked for, so that the number of corrupt calls up to the one that is verified is geometric: P(n) = p (1
/// − p)ⁿ⁻¹, 1 ÷ p on the average.
class Verification {
 public:
  /// Of `peers` devices a share `lying` lies, rounded to whole ones; which do depends on the seed alone.
  Verification(double share, double faulty_share, int peers, std::uint64_t seed);

  /// Whether the next call is verified.
  bool should_verify() { return share_ > 0 && rng_.uniform() < share_; }
  bool is_faulty(int peer) const { return is_faulty_[static_cast<std::size_t>(peer)]; }
  /// The output of a call of `peer` is used: which of its corrupt calls it is, from 1 on; 0: of none.
  long long record_output(int peer);
  void record_detection(int peer, double now, long long call, int samples_of_call);

  VerificationReport report = {};

 private:
  double share_;
  Rng rng_;
  std::vector<bool> is_faulty_;
  std::vector<long long> corrupt_calls_;  // of each peer
};

}  // namespace dtfm::sim
