// The best plans that a search has found.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "planner/search/iteration_time/plan_candidate.hpp"

namespace dtfm::search {

/// At most `limit` plans, best first, with only the best few of each shape and job.
class PlanPool {
 public:
  explicit PlanPool(std::size_t limit) : limit_(limit) {}

  void keep(PlanCandidate candidate);

  bool empty() const { return plans_.empty(); }
  /// The pool must not be empty.
  const PlanCandidate& best() const { return plans_.front(); }
  bool has_fitting() const { return !empty() && best().deficit_bytes <= 0; }

  /// Distinct jobs of the best plans.
  std::vector<std::shared_ptr<const DecidedJob>> best_jobs(std::size_t limit) const;
  /// Distinct shapes of the best plans of `job`.
  std::vector<Shape> best_shapes(const DecidedJob& job, std::size_t limit) const;
  /// The best plan of every shape and job first, then the others.
  std::vector<PlanCandidate> best_diverse(std::size_t limit) const;
  /// Plans to simulate, best first: of those nearly as good as the best, the best one of every layout,
  /// schedule, recomputation and set of device kinds, because the estimates of similar plans have similar
  /// errors; and the best plans. No two differ only in interchangeable devices, or in settings without
  /// effect.
  std::vector<PlanCandidate> finalists(std::size_t limit) const;
  /// The best plan of every job first, then the others.
  std::vector<PlanCandidate> best_per_job(std::size_t limit) const;
  /// Like best_diverse, but with the best plan of every shape first.
  std::vector<PlanCandidate> best_per_shape(std::size_t limit) const;

 private:
  std::size_t limit_;
  std::vector<PlanCandidate> plans_;
};

}  // namespace dtfm::search
