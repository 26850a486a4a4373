// The best order of a few chains of computations, by trying all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "planner/core/index.hpp"

namespace dtfm {

/// One thing after the other on devices without neighbours: the least time in which all chains can be done.
class LeastTime {
 public:
  struct Step {
    int device;
    double seconds, delay_s;  // after the step before

    friend bool operator==(const Step&, const Step&) = default;
  };
  using Chain = std::vector<Step>;

  /// Or `best`, if it is less. Every schedule can be made by placing steps in the order in which they begin,
  /// each as early as it can be: all such orders are tried, but that of equal chains the first goes first.
  static double of(const std::vector<Chain>& chains, int devices, double best) {
    LeastTime search{chains, devices, best};
    search.go_on();
    return search.best_;
  }

 private:
  LeastTime(const std::vector<Chain>& chains, int devices, double best)
      : chains_(chains), best_(best), next_(chains.size()), ready_(chains.size()), free_(at(devices)) {
    for (const Chain& chain : chains) {
      rest_.emplace_back(chain.size() + 1);
      for (std::size_t i = chain.size(); i-- > 0;)
        rest_.back()[i] = rest_.back()[i + 1] + chain[i].seconds + chain[i].delay_s;
    }
  }

  bool is_hopeless() const {
    std::vector<double> load = free_;
    for (std::size_t c = 0; c < chains_.size(); ++c) {
      if (ready_[c] + rest_[c][next_[c]] >= best_ - 1e-12) return true;
      for (std::size_t i = next_[c]; i < chains_[c].size(); ++i)
        load[at(chains_[c][i].device)] += chains_[c][i].seconds;
    }
    return *std::max_element(load.begin(), load.end()) >= best_ - 1e-12;
  }

  void go_on() {
    if (is_hopeless()) return;
    bool is_done = true;
    for (std::size_t c = 0; c < chains_.size(); ++c) {
      if (next_[c] == chains_[c].size()) continue;
      is_done = false;
      if (c > 0 && next_[c] == next_[c - 1] && chains_[c] == chains_[c - 1]) continue;
      const Step& step = chains_[c][next_[c]];
      double& free = free_[at(step.device)];
      const double was_free = free, was_ready = ready_[c];
      free = ready_[c] = std::max(free, ready_[c] + step.delay_s) + step.seconds;
      ++next_[c];
      go_on();
      --next_[c];
      free = was_free;
      ready_[c] = was_ready;
    }
    if (is_done) best_ = *std::max_element(ready_.begin(), ready_.end());
  }

  const std::vector<Chain>& chains_;
  double best_;
  std::vector<std::size_t> next_;          // of each chain
  std::vector<double> ready_, free_;       // of each chain, of each device
  std::vector<std::vector<double>> rest_;  // of each chain from each step on
};

}  // namespace dtfm
