#include "simulator/swarm/verification.hpp"

#include <cmath>
#include <numeric>
#include <span>

namespace dtfm::sim {
namespace {

/// Numbers of random streams, above those of trainers and jitter.
constexpr std::uint64_t calls_stream = std::uint64_t{1} << 33, peers_stream = calls_stream + 1;

}  // namespace

Verification::Verification(double share, double faulty_share, int peers, std::uint64_t seed)
    : share_(share),
      rng_(Rng::for_task(seed, calls_stream)),
      is_faulty_(static_cast<std::size_t>(peers)),
      corrupt_calls_(is_faulty_.size()) {
  std::vector<std::size_t> order(is_faulty_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  Rng::for_task(seed, peers_stream).shuffle(std::span(order));
  const auto count = static_cast<std::size_t>(std::lround(faulty_share * peers));
  for (std::size_t i = 0; i < count; ++i) is_faulty_[order[i]] = true;
}

long long Verification::record_output(int peer) {
  if (!is_faulty(peer)) return 0;
  ++report.corrupt_calls;
  return ++corrupt_calls_[static_cast<std::size_t>(peer)];
}

void Verification::record_detection(int peer, double now, long long call, int samples_of_call) {
  report.caught.push_back(
      {peer, now, call, corrupt_calls_[static_cast<std::size_t>(peer)] * samples_of_call});
}

}  // namespace dtfm::sim
