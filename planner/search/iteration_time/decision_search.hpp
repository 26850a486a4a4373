// Search over what a job leaves open (`auto`), by plans that are screened, not annealed.
#pragma once

#include <vector>

#include "planner/search/iteration_time/least_memory.hpp"
#include "planner/search/iteration_time/plan_screening.hpp"
#include "planner/search/iteration_time/search_state.hpp"

namespace dtfm::search {

inline constexpr int decision_rounds = 6;  // at most; chosen by hand

/// All functions keep the plans that they find in the state, and decide nothing if nothing is open.
class DecisionSearch {
 public:
  /// Both must outlive this.
  DecisionSearch(SearchState& state, PlanScreening& screening) : state_(state), screening_(screening) {}

  /// Compares all micro-batches, recomputations and tensor degrees with few shapes, and then the degrees on
  /// each GPU model, so that a short search does not depend on the order of decisions. `least`: jobs that are
  /// tried first if `first` does not fit in memory.
  void decide_early(const DecidedJobPtr& first, const LeastMemory& least);
  /// Fits plans of these jobs that need little memory, until one fits in it.
  void offer_least_memory(const LeastMemory& least);
  /// Tries Decisions::alternatives of the best plans, as long as that helps. The pool must not be empty.
  void decide();
  /// Tries Decisions::alternatives of the best plans once. Returns whether the best plan has improved.
  bool try_alternatives();

 private:
  void offer_least_memory(const LeastMemory& least, StageCounts counts, std::size_t most);
  void refine_best_per_job();
  void decide_schedule_early();
  std::vector<Shape> sparse_full_shapes(const DecidedJob& job) const;
  void screen_micro_batches();
  void decide_degrees_by_gpu();
  DecidedJobPtr best_job_that_may_vary_degrees() const;
  DecidedJobs neighbours(const DecidedJob& job);
  void decide_by_family();

  SearchState& state_;
  PlanScreening& screening_;
};

/// Appends those of `more` that are not among `plans`.
void add_missing(std::vector<PlanCandidate>& plans, const std::vector<PlanCandidate>& more);

}  // namespace dtfm::search
