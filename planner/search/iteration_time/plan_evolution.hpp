// Steady-state evolutionary search over plans whose pipelines may have different depths.
#pragma once

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/stop.hpp"
#include "core/base/rng.hpp"
#include "planner/search/iteration_time/initial_plans.hpp"
#include "planner/search/iteration_time/plan_candidate.hpp"
#include "planner/search/iteration_time/plan_codec.hpp"
#include "planner/search/iteration_time/plan_score.hpp"

namespace dtfm::search {

/// Whether the plans of a decided job can be evolved: its pipelines may differ, micro-batches need not come
/// in rounds, and there are few groups.
bool can_evolve(const DecidedJob& job);

using Layers = std::vector<std::pair<int, int>>;  // per stage: its first layer, and the layer after its last

/// A cache of layer splits, which several evolutions may share. A key contains everything that a split of the
/// job depends on, so the result does not depend on who computes it first. The number of entries is limited.
/// Thread-safe.
class LayerSplits {
 public:
  template <class Compute>
  Layers get(const DecidedJob& job, std::vector<int> key, const Compute& compute) {
    {
      const std::lock_guard lock(mutex_);
      auto& known = known_[&job];
      if (const auto found = known.find(key); found != known.end()) return found->second;
    }
    Layers layers = compute();
    const std::lock_guard lock(mutex_);
    constexpr std::size_t max_entries = 60'000;  // 20 MB for a dozen stages; chosen by hand
    if (size_ < max_entries && known_[&job].emplace(std::move(key), layers).second) ++size_;
    return layers;
  }

 private:
  std::mutex mutex_;
  std::map<const DecidedJob*, std::map<std::vector<int>, Layers>> known_;
  std::size_t size_ = 0;
};

/// Evolves a population that starts from some of `starts`, and returns the best of the starts and of the
/// children that replaced their parents, best first. `jobs`: decided jobs that can be evolved, those of
/// `starts` among them. A child is a plan fitted to another job, one with another tensor degree of a stage,
/// or one with a group moved, added, removed or exchanged, a pipeline split, reversed or joined with another,
/// pipelines recombined with those of one of the best plans, a layer or micro-batch moved, or, if gradient
/// synchronization depends on it, another order of the pipelines. Layers of changed pipelines are split
/// again, and micro-batches balanced. A child replaces its parent if it is better, or with a probability that
/// falls as in annealing. `stop` is called before every child; a stopped score ends the evolution, too.
/// `splits`: layer splits to share with other evolutions, if any.
std::vector<PlanCandidate> evolve_plans(std::vector<PlanCandidate> starts, const DecidedJobs& jobs,
                                        const ShapeLimits& limits, const PlanScore& score, long long children,
                                        Rng& rng, const StopFunction& stop, LayerSplits* splits = nullptr);

}  // namespace dtfm::search
