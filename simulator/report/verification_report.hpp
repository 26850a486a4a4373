// Results of verification in a swarm, where some calls are computed a second time by another peer.
#pragma once

#include <vector>

namespace dtfm::sim {

/// A faulty peer that was detected because its output differed from that of a second peer.
struct CaughtPeer {
  int device = 0;
  double date_s = 0;    // time of its ban
  long long calls = 0;  // its corrupt calls up to and including the one that was detected
  /// Samples of all its corrupt calls whose outputs were used before the ban. The forward and the backward
  /// pass of a micro-batch count separately.
  long long samples = 0;
};

struct VerificationReport {
  long long verified = 0;    // calls whose outputs were compared
  long long unverified = 0;  // calls selected for verification that no second peer could finish
  double compute_s = 0;      // compute time of the second computations that were compared
  double bytes = 0;          // of inputs sent to second peers
  long long corrupt_calls = 0;
  std::vector<CaughtPeer> caught;  // in order of their bans
};

}  // namespace dtfm::sim
