// The best plans that a search has come to.
#pragma once

#include <cstddef>
#include <vector>

#include "planner/search/iteration_time/plan_candidate.hpp"

namespace dtfm::search {

/// At most so many, the best first; of one shape and job the best few.
class PlanPool {
 public:
  explicit PlanPool(std::size_t limit) : limit_(limit) {}

  void keep(PlanCandidate candidate);

  bool empty() const { return plans_.empty(); }
  /// There must be one.
  const PlanCandidate& best() const { return plans_.front(); }
  bool has_fitting() const { return !empty() && best().deficit_bytes <= 0; }

  /// The shapes of the best plans of `job`, each once.
  std::vector<Shape> best_shapes(const DecidedJob& job, std::size_t limit) const;
  /// The best of every shape and job first, then the others.
  std::vector<PlanCandidate> best_diverse(std::size_t limit) const;
  /// The same, and of these the best of every shape first.
  std::vector<PlanCandidate> best_per_shape(std::size_t limit) const;

 private:
  std::size_t limit_;
  std::vector<PlanCandidate> plans_;
};

}  // namespace dtfm::search
