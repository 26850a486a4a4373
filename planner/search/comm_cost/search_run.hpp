// State that all strategies share: the model, the budget, stop conditions, and the best placement so far.
#pragma once

#include <atomic>
#include <mutex>

#include "planner/search/comm_cost/strategy.hpp"

namespace dtfm::search {

class SearchRun {
 public:
  SearchRun(const cost::CommCostModel& model, SearchOptions options);

  const cost::CommCostModel& model() const { return model_; }
  const SearchOptions& options() const { return options_; }
  /// For parts of the search, which end when it must stop.
  Work work() const {
    return {options_.threads, options_.ranks, [this] { return must_stop(); }};
  }

  /// Whether the search was interrupted or its time limit is reached. Safe to call from any thread.
  bool must_stop() const;
  /// Whether it was an interrupt or the time limit. Call only after `must_stop` returned true.
  Stopped reason_to_stop() const;
  /// Elapsed share of the strategy's time limit; 0 without a limit. With `prove` the strategy's limit is half
  /// of the given one, until `use_full_time_limit`.
  double time_share() const { return search::time_share(options_); }
  /// Call when the strategy has finished; the rest of the time limit is for the lower bound.
  void use_full_time_limit() { options_.time_limit = full_time_limit_; }
  /// Returns the number of evaluations allowed: the option, else `fallback`; unlimited if only a time limit
  /// is given. Progress is reported against it.
  long long budget(long long fallback);

  /// Keeps `placement`, whose deployment costs `cost`, if it is better than the best so far, and counts
  /// evaluations. Call from one thread, in an order that does not depend on the number of threads.
  void offer(const Placement& placement, double cost, long long evaluations);
  bool has_best() const { return !convergence_.empty(); }
  double best_cost() const { return best_cost_; }
  const Placement& best() const { return best_; }
  long long evaluations() const { return evaluations_; }

  void set_lower_bound(LowerBound bound);
  const LowerBound& lower_bound() const { return lower_bound_; }
  /// Whether the best cost meets the lower bound (relative tolerance 1e-9).
  bool is_optimal() const;
  void report_progress() const;
  /// Reports progress from inside parallel work, which has made `evaluations` more since its last call. Safe
  /// to call from any thread: only one reports at a time.
  void tick(long long evaluations) const;

  SearchResult result(Stopped stopped) const;

 private:
  const cost::CommCostModel& model_;
  SearchOptions options_;                  // with the time limit of the strategy
  std::optional<double> full_time_limit_;  // s
  Placement best_;
  double best_cost_ = 0;
  long long evaluations_ = 0;
  std::vector<ConvergencePoint> convergence_;
  LowerBound lower_bound_;
  long long budget_ = 0;                           // evaluations; 0: unlimited
  mutable std::atomic<long long> in_progress_{0};  // evaluations counted by `tick` but not offered yet
  mutable std::mutex progress_mutex_;
};

/// A placement with the best known order of groups and matchings, and its cost.
struct DeployedPlacement {
  Placement placement;
  double cost = 0;  // s
};
/// Deploys the groups of `placement` as `cost::best_deployment` does. Once `stop` returns true, keeps the
/// order found so far.
DeployedPlacement deploy(const cost::CommCostModel& model, const Placement& placement,
                         const StopFunction& stop = {});

// One function for each row of the table of strategies.
Stopped run_identity(SearchRun& run);
Stopped run_megatron(SearchRun& run);
Stopped run_random(SearchRun& run);
Stopped run_exhaustive(SearchRun& run);
Stopped run_genetic(SearchRun& run);
Stopped run_kernighan_lin(SearchRun& run);
Stopped run_evolutionary(SearchRun& run);

}  // namespace dtfm::search
