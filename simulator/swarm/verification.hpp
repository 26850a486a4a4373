// Faulty peers, and the selection of calls that a swarm has computed a second time to detect them.
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "core/base/index.hpp"
#include "core/base/rng.hpp"
#include "simulator/report/verification_report.hpp"

namespace dtfm::sim {

/// Every call is verified independently with the same probability p. A faulty peer corrupts all calls that it
/// computes for others, so the number of corrupt calls up to the verified one is geometrically distributed:
/// P(n) = p (1 − p)ⁿ⁻¹, with mean 1 ÷ p.
class Verification {
 public:
  /// `share`: probability that a call is verified. `faulty_share`: share of the `peers` devices that are
  /// faulty, rounded to a whole number. Which ones are faulty depends only on the seed.
  Verification(double share, double faulty_share, int peers, std::uint64_t seed)
      : share_(share),
        rng_(Rng::for_task(seed, calls_stream)),
        is_faulty_(at(peers)),
        corrupt_calls_(is_faulty_.size()) {
    std::vector<std::size_t> order(is_faulty_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    Rng::for_task(seed, peers_stream).shuffle(std::span(order));
    const auto count = static_cast<std::size_t>(std::lround(faulty_share * peers));
    for (std::size_t i = 0; i < count; ++i) is_faulty_[order[i]] = true;
  }

  /// Whether the next call is verified.
  bool should_verify() { return share_ > 0 && rng_.uniform() < share_; }
  bool is_faulty(int peer) const { return is_faulty_[at(peer)]; }
  /// Records that the output of a call of `peer` is used. Returns which of the peer's corrupt calls it is,
  /// counted from 1, or 0 if it is not corrupt.
  long long record_output(int peer) {
    if (!is_faulty(peer)) return 0;
    ++report.corrupt_calls;
    return ++corrupt_calls_[at(peer)];
  }
  void record_detection(int peer, double now, long long call, int samples_of_call) {
    report.caught.push_back({peer, now, call, corrupt_calls_[at(peer)] * samples_of_call});
  }

  VerificationReport report = {};

 private:
  /// Numbers of random streams, above those of trainers and jitter.
  static constexpr std::uint64_t calls_stream = std::uint64_t{1} << 33, peers_stream = calls_stream + 1;

  double share_;
  Rng rng_;
  std::vector<bool> is_faulty_;
  std::vector<long long> corrupt_calls_;  // [peer]
};

}  // namespace dtfm::sim
