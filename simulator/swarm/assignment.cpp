#include "simulator/swarm/assignment.hpp"

#include <algorithm>
#include <numeric>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/infinity.hpp"

namespace dtfm::sim {
namespace {

std::vector<double> speeds(std::span<const PeerKind> kinds, const std::vector<std::vector<int>>& counts) {
  std::vector<double> result(counts.size());
  for (std::size_t stage = 0; stage < counts.size(); ++stage)
    for (std::size_t kind = 0; kind < kinds.size(); ++kind)
      result[stage] += counts[stage][kind] * kinds[kind].rates[stage];
  return result;
}

/// Gives each peer to the currently slowest stage, fastest kinds first.
Assignment greedy(std::span<const PeerKind> kinds) {
  const std::size_t stages = kinds.front().rates.size();
  std::vector<std::size_t> order(kinds.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return kinds[a].rates.front() > kinds[b].rates.front();
  });
  Assignment result;
  result.counts.assign(stages, std::vector<int>(kinds.size()));
  std::vector<double> speed(stages);
  for (const std::size_t kind : order)
    for (int i = 0; i < kinds[kind].count; ++i) {
      const auto slowest =
          static_cast<std::size_t>(std::min_element(speed.begin(), speed.end()) - speed.begin());
      ++result.counts[slowest][kind];
      speed[slowest] += kinds[kind].rates[slowest];
    }
  const std::vector<double> exact = speeds(kinds, result.counts);
  result.samples_per_s = *std::min_element(exact.begin(), exact.end());
  return result;
}

double dual_bound(std::span<const PeerKind> kinds) {
  const std::size_t stages = kinds.front().rates.size();
  std::vector<double> weights(stages);
  for (std::size_t stage = 0; stage < stages; ++stage)
    for (const PeerKind& kind : kinds) weights[stage] += kind.count / kind.rates[stage];
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  double bound = 0;
  for (const PeerKind& kind : kinds) {
    double max_rate = 0;
    for (std::size_t stage = 0; stage < stages; ++stage)
      max_rate = std::max(max_rate, weights[stage] / sum * kind.rates[stage]);
    bound += kind.count * max_rate;
  }
  return bound;
}

/// Dynamic programming over the stages: the best rate of the remaining stages, by how many peers of each kind
/// are left.
class ExactAssignment {
 public:
  explicit ExactAssignment(std::span<const PeerKind> kinds) : kinds_(kinds) {
    for (const PeerKind& kind : kinds) states_ *= kind.count + 1;
  }

  Assignment solve() {
    const std::size_t stages = kinds_.front().rates.size();
    std::vector<double> best(at(states_), infinity);
    std::vector<std::vector<int>> choice(stages, std::vector<int>(at(states_)));
    for (std::size_t stage = stages; stage-- > 0;) {
      std::vector<double> better(at(states_), -1);
      for (int left = 0; left < states_; ++left)
        for (int used = 0; used <= left; ++used) {
          const double speed = speed_of(used, left, stage);
          if (speed < 0) continue;
          const double value = std::min(speed, best[at(left - used)]);
          if (value <= better[at(left)]) continue;
          better[at(left)] = value;
          choice[stage][at(left)] = used;
        }
      best.swap(better);
    }
    Assignment result;
    result.samples_per_s = result.bound = best[at(states_ - 1)];
    int left = states_ - 1;
    for (std::size_t stage = 0; stage < stages; ++stage) {
      const int used = choice[stage][at(left)];
      result.counts.push_back(counts_of(used));
      left -= used;
    }
    return result;
  }

 private:
  /// A state is a mixed-radix number whose digits are the counts of the kinds, in base count + 1.
  std::vector<int> counts_of(int state) const {
    std::vector<int> counts;
    for (const PeerKind& kind : kinds_) {
      counts.push_back(state % (kind.count + 1));
      state /= kind.count + 1;
    }
    return counts;
  }
  /// Samples per second of the peers `used` at the stage; −1 if they exceed the peers that are `left`.
  double speed_of(int used, int left, std::size_t stage) const {
    double speed = 0;
    for (const PeerKind& kind : kinds_) {
      const int base = kind.count + 1;
      if (used % base > left % base) return -1;
      speed += used % base * kind.rates[stage];
      used /= base;
      left /= base;
    }
    return speed;
  }

  std::span<const PeerKind> kinds_;
  int states_ = 1;
};

}  // namespace

Assignment best_assignment(std::span<const PeerKind> kinds) {
  DTFM_ASSERT(!kinds.empty() && !kinds.front().rates.empty());
  double states = 1;
  int kinds_present = 0;  // number of kinds with at least one peer
  for (const PeerKind& kind : kinds) {
    states *= kind.count + 1;
    kinds_present += kind.count > 0 ? 1 : 0;
  }
  if (kinds_present > 1 && states <= max_states) return ExactAssignment(kinds).solve();
  Assignment result = greedy(kinds);
  result.is_optimal = kinds_present <= 1;
  result.bound = result.is_optimal ? result.samples_per_s : dual_bound(kinds);
  return result;
}

}  // namespace dtfm::sim
