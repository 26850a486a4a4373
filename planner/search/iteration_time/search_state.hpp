// What the steps of the search by iteration time share: limits, budget, and the best plans so far.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "planner/search/iteration_time/decisions.hpp"
#include "planner/search/iteration_time/evaluated_work.hpp"
#include "planner/search/iteration_time/iteration_search.hpp"
#include "planner/search/iteration_time/pareto_front.hpp"
#include "planner/search/iteration_time/plan_pool.hpp"
#include "planner/search/iteration_time/plan_score.hpp"

namespace dtfm::search {

using DecidedJobPtr = std::shared_ptr<const DecidedJob>;

// Shares of a time limit, for minimizing migration and for simulating finalists. Chosen by hand.
inline constexpr double migration_time_share = 0.05, simulation_time_share = 0.1;

/// The shape and recomputation mode that all plans of a family have.
struct PlanFamily {
  Shape shape;
  Recomputation recomputation = Recomputation::none;
  friend auto operator<=>(const PlanFamily&, const PlanFamily&) = default;
};

class SearchState {
 public:
  /// `problem` must outlive this.
  SearchState(const Problem& problem, IterationSearchOptions options);

  bool is_interrupted() const { return is_stopped(options.common); }
  /// Whether this share of the time limit is over.
  bool is_late(double share) const { return time_share(options.common) >= share; }
  /// Whether the search must stop because of its time limit or an interrupt.
  bool must_stop() const;
  /// Whether the search must stop, has used up its evaluations, or only had to find a plan that fits and has
  /// one.
  bool is_over() const {
    return must_stop() || budget.is_spent() || (options.only_fits && pool.has_fitting());
  }

  void keep(PlanCandidate candidate);
  /// Forgets all plans but those of the Pareto front.
  void forget_plans() {
    pool = PlanPool(max_kept);
    best_by_family.clear();
  }
  /// Records the best score after the evaluations so far, and reports progress.
  void record_convergence();
  /// Reports progress within an annealing. Thread-safe. `asked` is the number of stop checks so far in all
  /// runs of this annealing.
  void report(long long asked);

  /// Keeps the plans of `jobs` that find(0, score), …, find(count − 1, score) find, as far as the budget
  /// allows. The search must return a plan, so the first task is always completed; with
  /// `until_one_fits`, tasks start for a while after it until a plan fits in memory.
  template <class Find>
  void offer(int count, const DecidedJobs& jobs, const Find& find, bool until_one_fits = false) {
    if (budget.is_spent()) return;
    const auto is_enough = [&](bool one_fits) {
      return must_stop() && (one_fits || !until_one_fits || is_interrupted() || is_overdue());
    };
    std::atomic<bool> one_fits = pool.has_fitting();
    const PlanScore stoppable = score.with_stop([&] { return is_enough(one_fits); });
    const auto task = [&](int i) {
      EvaluatedPlans found = evaluate_and_count(stoppable, [&](const PlanScore& own) {
        if (i > 0 || !pool.empty()) own.throw_if_stopped();
        return find(i, own);
      });
      for (const PlanCandidate& it : found.plans)
        if (it.deficit_bytes <= 0) one_fits = true;
      return found;
    };
    const bool is_limited = budget.is_limited() || options.common.time_limit;
    Work work = options.common;
    work.stop = [&] { return is_enough(pool.has_fitting()); };
    take_in_order(count, work, jobs, is_limited, task, [&](const EvaluatedPlans& found) {
      if (!has_plan_)  // the search must return one
        budget.count(found.evaluations);
      else if (!budget.take(found.evaluations))
        return false;
      for (const PlanCandidate& candidate : found.plans) keep(candidate);
      if (!found.discarded.empty()) discarded.push_back(found.discarded);
      return !(options.only_fits && pool.has_fitting());
    });
  }

  IterationSearchOptions options;
  std::size_t max_kept;  // plans in the pool
  Decisions decisions;
  PlanScore score;
  EvaluationBudget budget;
  PlanPool pool;
  /// Only plans of few groups that can be evolved. They have pools of their own, so that no family is crowded
  /// out by others that are better at first.
  std::map<PlanFamily, PlanPool> best_by_family;
  ParetoFront pareto_front;
  std::optional<PlanCandidate> best_undisturbed;  // that fits in memory; only under churn
  std::vector<ConvergencePoint> convergence;
  std::vector<std::string> discarded;  // errors of plans that could not be evaluated

 private:
  bool is_overdue() const;
  void report_evaluations(long long evaluations) const;

  double device_count_;
  bool has_plan_ = false;  // now or before plans were forgotten
  std::mutex progress_mutex_;
};

}  // namespace dtfm::search
