// The throughput of the peers of a swarm, actual and optimal, without network and optimizer steps.
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "simulator/swarm/assignment.hpp"
#include "simulator/swarm/peers.hpp"

namespace dtfm::sim {

/// Samples per second of the serving peers, by stage.
class ThroughputMeter {
 public:
  explicit ThroughputMeter(int stages) : blocked_(at(stages)) {}

  /// To be called whenever peers have changed.
  void update(const SwarmContext& run, const Peers& peers) {
    accumulate(run.now);
    const auto& [optimal, is_exact] = optimum(peers.available_kinds());
    optimal_ = optimal;
    is_exact_ = is_exact_ && is_exact;
    std::vector<double> speeds(blocked_.size());
    std::vector<bool> is_blocked(blocked_.size(), true);
    for (int device = 0; device < run.devices(); ++device) {
      if (!peers[device].serving) continue;
      speeds[at(peers[device].stage)] += peers.rate(device, peers[device].stage);
      is_blocked[at(peers[device].stage)] = false;
    }
    assigned_ = *std::min_element(speeds.begin(), speeds.end());
    for (std::size_t stage = 0; stage < blocked_.size(); ++stage)
      blocked_[stage].update(is_blocked[stage], run.now);
  }
  /// Fills in optimal and assigned throughput, and peers and blocked time of the stages.
  void add_to_report(SwarmContext& run, const Peers& peers) {
    accumulate(run.now);
    SwarmReport& report = run.report;
    report.optimum_is_exact = is_exact_;
    if (run.now > 0) {
      report.optimal_samples_per_s = optimal_samples_ / run.now;
      report.assigned_samples_per_s = assigned_samples_ / run.now;
    }
    for (std::size_t stage = 0; stage < blocked_.size(); ++stage) {
      const BlockedTime& it = blocked_[stage];
      report.stages[stage].blocked_s = it.sum_s + (it.is_blocked ? run.now - it.since : 0);
    }
    for (int device = 0; device < peers.size(); ++device)
      if (peers[device].serving) ++report.stages[at(peers[device].stage)].peers;
  }

 private:
  struct BlockedTime {
    bool is_blocked = true;  // there is no serving peer
    double since = 0, sum_s = 0;

    void update(bool is_now, double now) {
      if (is_now && !is_blocked) since = now;
      if (!is_now && is_blocked) sum_s += now - since;
      is_blocked = is_now;
    }
  };
  /// The optimal rate, or an upper bound of it, and whether it is exact.
  const std::pair<double, bool>& optimum(const std::vector<PeerKind>& kinds) {
    std::vector<double> key;
    for (const PeerKind& kind : kinds) {
      key.push_back(kind.count);
      key.insert(key.end(), kind.rates.begin(), kind.rates.end());
    }
    const auto [known, is_new] = optima_.try_emplace(key, 0, true);
    if (is_new && !kinds.empty()) {
      const Assignment best = best_assignment(kinds);
      known->second = {best.bound, best.is_optimal};
    }
    return known->second;
  }
  void accumulate(double now) {
    optimal_samples_ += optimal_ * (now - since_);
    assigned_samples_ += assigned_ * (now - since_);
    since_ = now;
  }

  double optimal_ = 0, assigned_ = 0;                  // samples per second since `since_`
  double since_ = 0;                                   // s
  double optimal_samples_ = 0, assigned_samples_ = 0;  // until `since_`
  bool is_exact_ = true;
  std::vector<BlockedTime> blocked_;  // [stage]
  /// Results of `optimum`, by counts and rates of the kinds of peers.
  std::map<std::vector<double>, std::pair<double, bool>> optima_;
};

}  // namespace dtfm::sim
