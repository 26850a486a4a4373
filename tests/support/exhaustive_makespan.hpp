// Finds the shortest schedule of a few chains of computations by trying all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/base/index.hpp"

namespace dtfm {

/// Computes the minimum makespan of chains of steps on devices that run one step at a time.
class ExhaustiveMakespan {
 public:
  struct Step {
    int device;
    double seconds, delay_s;  // delay after the previous step

    friend bool operator==(const Step&, const Step&) = default;
  };
  using Chain = std::vector<Step>;

  /// Returns the minimum makespan, or `best` if that is less. Every schedule can be built by placing steps in
  /// the order of their start times, each as early as possible, so all such orders are tried. Of equal
  /// chains, the first always goes first.
  static double minimize(const std::vector<Chain>& chains, int devices, double best) {
    ExhaustiveMakespan search{chains, devices, best};
    search.branch();
    return search.best_;
  }

 private:
  ExhaustiveMakespan(const std::vector<Chain>& chains, int devices, double best)
      : chains_(chains),
        best_(best),
        next_(chains.size()),
        chain_ready_(chains.size()),
        device_free_(at(devices)) {
    for (const Chain& chain : chains) {
      remaining_s_.emplace_back(chain.size() + 1);
      for (std::size_t i = chain.size(); i-- > 0;)
        remaining_s_.back()[i] = remaining_s_.back()[i + 1] + chain[i].seconds + chain[i].delay_s;
    }
  }

  bool is_bounded() const {
    std::vector<double> load = device_free_;
    for (std::size_t c = 0; c < chains_.size(); ++c) {
      if (chain_ready_[c] + remaining_s_[c][next_[c]] >= best_ - 1e-12) return true;
      for (std::size_t i = next_[c]; i < chains_[c].size(); ++i)
        load[at(chains_[c][i].device)] += chains_[c][i].seconds;
    }
    return *std::max_element(load.begin(), load.end()) >= best_ - 1e-12;
  }

  void branch() {
    if (is_bounded()) return;
    bool is_done = true;
    for (std::size_t c = 0; c < chains_.size(); ++c) {
      if (next_[c] == chains_[c].size()) continue;
      is_done = false;
      if (c > 0 && next_[c] == next_[c - 1] && chains_[c] == chains_[c - 1]) continue;
      const Step& step = chains_[c][next_[c]];
      double& free = device_free_[at(step.device)];
      const double old_free = free, old_ready = chain_ready_[c];
      free = chain_ready_[c] = std::max(free, chain_ready_[c] + step.delay_s) + step.seconds;
      ++next_[c];
      branch();
      --next_[c];
      free = old_free;
      chain_ready_[c] = old_ready;
    }
    if (is_done) best_ = *std::max_element(chain_ready_.begin(), chain_ready_.end());
  }

  const std::vector<Chain>& chains_;
  double best_;
  std::vector<std::size_t> next_;                  // per chain
  std::vector<double> chain_ready_, device_free_;  // per chain; per device
  std::vector<std::vector<double>> remaining_s_;   // per chain, from each step to the end
};

}  // namespace dtfm
