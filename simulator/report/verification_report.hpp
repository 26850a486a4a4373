// What it came to that calls were computed a second time.
#pragma once

#include <vector>

namespace dtfm::sim {

/// A peer whose output was another than that of a second peer.
struct CaughtPeer {
  int device = 0;
  double date_s = 0;      // of its ban
  long long calls = 0;    // its corrupt calls up to the one that gave it away, which is counted
  long long samples = 0;  // of all its corrupt calls until its ban, whose outputs were used; those of a
                          // micro-batch's forward and of its backward each count
};

struct VerificationReport {
  long long verified = 0;    // calls whose outputs were compared
  long long unverified = 0;  // drawn, but no second peer was there to the end
  double compute_s = 0;      // of second computations that were compared
  double bytes = 0;          // of inputs that were sent again
  long long corrupt_calls = 0;
  std::vector<CaughtPeer> caught;  // by date
};

}  // namespace dtfm::sim
