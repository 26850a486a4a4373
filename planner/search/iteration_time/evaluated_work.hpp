// Parallel work that is limited by its number of evaluations.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/work.hpp"
#include "planner/search/iteration_time/plan_codec.hpp"
#include "planner/search/iteration_time/plan_score.hpp"

namespace dtfm::search {

/// Counts evaluations of plans and moves against a limit. Until `has_fitting`, when a plan fits in memory,
/// another limit applies.
class EvaluationBudget {
 public:
  explicit EvaluationBudget(std::optional<long long> limit) : limit_(limit), has_fitting_(true) {}
  EvaluationBudget(std::optional<long long> limit, long long unfit_limit)
      : limit_(limit), unfit_limit_(unfit_limit) {}

  long long evaluated() const { return evaluated_; }
  long long left() const {
    if (!has_fitting_) return std::max(0LL, unfit_limit_ - evaluated_);
    return limit_ ? std::max(0LL, *limit_ - evaluated_) : std::numeric_limits<long long>::max();
  }
  void set_fitting() { has_fitting_ = true; }
  /// True if work has been left out; then no later work may be done either.
  bool is_spent() const { return is_spent_; }
  void end() { is_spent_ = true; }
  void count(long long evaluations) { evaluated_ += evaluations; }
  /// Counts `evaluations` and returns true, or marks the budget as spent if fewer are left.
  bool take(long long evaluations) {
    is_spent_ = is_spent_ || evaluations > left();
    if (!is_spent_) count(evaluations);
    return !is_spent_;
  }
  bool is_limited() const { return limit_ || !has_fitting_; }

 private:
  std::optional<long long> limit_;
  long long unfit_limit_ = 0;
  long long evaluated_ = 0;
  bool has_fitting_ = false, is_spent_ = false;
};

/// Runs `find` with a score of its own and returns the plans that it finds, with the number of evaluations.
/// There are no plans if it is stopped, or if one cannot be evaluated, which is an internal error.
template <class Find>
EvaluatedPlans evaluate_and_count(const PlanScore& score, const Find& find) {
  const PlanScore own = score.with_own_count();
  EvaluatedPlans found;
  try {
    found.plans = find(own);
  } catch (const WorkStopped&) {
  } catch (const Error& error) {
    found.discarded = error.what();
  }
  found.evaluations = own.evaluated();
  return found;
}

/// Runs task(0), …, task(count − 1) in parallel and passes the results to `take` in order, as long as that
/// returns true. The results taken do not depend on the number of workers. Limited tasks are started in
/// batches, so that few of them are wasted, and no further batch once the work is stopped. `jobs`: the
/// decided jobs of all plans that the tasks may find.
template <class Task, class Take>
void take_in_order(int count, const Work& work, const DecidedJobs& jobs, bool is_limited, const Task& task,
                   const Take& take) {
  const int at_once = is_limited ? 4 * work.workers() : count;
  for (int begin = 0; begin < count && (begin == 0 || !is_stopped(work)); begin += at_once)
    for (const EvaluatedPlans& found : distributed_map(
             std::min(at_once, count - begin), work, [&](int i) -> EvaluatedPlans { return task(begin + i); },
             &jobs))
      if (!take(found)) return;
}

}  // namespace dtfm::search
