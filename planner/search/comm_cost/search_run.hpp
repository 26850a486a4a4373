// What all strategies share: the model, the budget, when to stop, and the best placement so far.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>

#include "planner/search/comm_cost/strategy.hpp"

namespace dtfm::search {

class SearchRun {
 public:
  SearchRun(const cost::CommCostModel& model, const SearchOptions& options);

  const cost::CommCostModel& model() const { return model_; }
  const SearchOptions& options() const { return options_; }

  /// The interrupt came or the time is up. Safe to call from any thread.
  bool must_stop() const;
  /// Which of the two; only after `must_stop`.
  Stopped reason_to_stop() const;
  /// Share of the time limit that is over; 0 without one. It is the strategy's own limit: of a search that is
  /// to be proven, half of what was asked for, until `use_full_time_limit`.
  double time_share() const;
  /// The strategy is done.
  void use_full_time_limit() { time_limit_ = options_.time_limit; }
  /// Evaluations that are asked for: the option, or `fallback`; without end under a time limit alone.
  /// Progress is told against it.
  long long budget(long long fallback);

  /// Takes `placement`, whose deployment costs `cost`, if it is better than the best so far, and counts
  /// evaluations. From one thread, in an order that does not depend on threads.
  void offer(const Placement& placement, double cost, long long evaluations);
  bool has_best() const { return !convergence_.empty(); }
  double best_cost() const { return best_cost_; }
  const Placement& best() const { return best_; }
  long long evaluations() const { return evaluations_; }

  void set_lower_bound(LowerBound bound);
  const LowerBound& lower_bound() const { return lower_bound_; }
  /// The best cost meets the lower bound (relative 1e-9).
  bool is_optimal() const;
  void report_progress() const;
  /// The same from inside a parallel piece of work, which has made `evaluations` more since it said so last.
  /// Safe to call from any thread: only one reports at a time.
  void tick(long long evaluations) const;

  SearchResult result(Stopped stopped) const;

 private:
  using Clock = std::chrono::steady_clock;

  const cost::CommCostModel& model_;
  const SearchOptions& options_;
  Clock::time_point begin_;
  std::optional<double> time_limit_;  // s
  Placement best_;
  double best_cost_ = 0;
  long long evaluations_ = 0;
  std::vector<ConvergencePoint> convergence_;
  LowerBound lower_bound_;
  long long budget_ = 0;                           // 0: open-ended
  mutable std::atomic<long long> in_progress_{0};  // evaluations told by `tick` and not offered yet
  mutable std::mutex progress_mutex_;
};

/// Order of the groups and matchings that make `placement`'s groups cheapest, and what that costs.
struct DeployedPlacement {
  Placement placement;
  double cost = 0;  // s
};
/// When `stop` says so half-way, the order is the one found by then.
DeployedPlacement deploy(const cost::CommCostModel& model, const Placement& placement,
                  const std::function<bool()>& stop = {});

// One function for each row of the table of strategies.
Stopped run_identity(SearchRun& run);
Stopped run_megatron(SearchRun& run);
Stopped run_random(SearchRun& run);
Stopped run_exhaustive(SearchRun& run);
Stopped run_genetic(SearchRun& run);
Stopped run_kernighan_lin(SearchRun& run);
Stopped run_evolutionary(SearchRun& run);

}  // namespace dtfm::search
