#include "simulator/swarm/butterfly.hpp"

#include <algorithm>
#include <numeric>

#include "core/base/error.hpp"

namespace dtfm::sim {
namespace {

/// The smallest time T per byte, T ÷ V. With bandwidths in descending order, the first k peers have shards if
/// 1 + (G − 2) w_i = T b_i ÷ V and Σ w = 1 give none of them a negative one:
/// T ÷ V = (G − 2 + k) ÷ (b_1 + … + b_k) and b_k T ÷ V ≥ 1.
double min_time_per_byte(std::vector<double> bandwidths) {
  std::sort(bandwidths.rbegin(), bandwidths.rend());
  const double others = static_cast<double>(bandwidths.size()) - 2;
  double sum = 0, time = 0;
  for (std::size_t k = 0; k < bandwidths.size(); ++k) {
    if (k > 0 && bandwidths[k] * time < 1) break;
    sum += bandwidths[k];
    time = (others + static_cast<double>(k + 1)) / sum;
  }
  // A peer without a shard still sends its gradients.
  return std::max(time, 1 / bandwidths.back());
}

}  // namespace

Butterfly butterfly(double bytes, std::span<const double> bytes_per_s) {
  const std::size_t peers = bytes_per_s.size();
  Butterfly result;
  result.shards.assign(peers, peers == 0 ? 0 : 1 / static_cast<double>(peers));
  if (peers < 2) return result;
  for (const double bandwidth : bytes_per_s) DTFM_ASSERT(bandwidth > 0);
  const double time = min_time_per_byte({bytes_per_s.begin(), bytes_per_s.end()});
  result.seconds = bytes * time;
  if (peers == 2) return result;  // the time does not depend on the shards
  for (std::size_t i = 0; i < peers; ++i)
    result.shards[i] = std::max(0.0, (bytes_per_s[i] * time - 1) / static_cast<double>(peers - 2));
  // The sum exceeds 1 if the slowest peer determines the time; then the other peers have slack.
  const double sum = std::accumulate(result.shards.begin(), result.shards.end(), 0.0);
  for (double& shard : result.shards) shard /= sum;
  return result;
}

}  // namespace dtfm::sim
