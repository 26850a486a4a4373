// Pareto front of plans.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "planner/search/iteration_time/plan_candidate.hpp"

namespace dtfm::search {

/// Objectives of a plan; less is better in all three.
struct PlanObjectives {
  double iteration_s = 0;
  double usd = std::numeric_limits<double>::infinity();  // per iteration; infinite if unknown
  int devices = 0;

  friend bool operator==(const PlanObjectives&, const PlanObjectives&) = default;
};

/// Whether `a` is as good in every objective and better in at least one.
bool dominates(const PlanObjectives& a, const PlanObjectives& b);

/// Indices of those that no other dominates, by time, then price, then devices; only the first of equal ones.
std::vector<std::size_t> undominated(const std::vector<PlanObjectives>& measures);

/// Estimated objectives of `candidate` with the devices of `plan`.
PlanObjectives plan_objectives(const PlanCandidate& candidate, const Plan& plan);

/// Plans that fit in memory, none of which dominates another. If there are more than the limit, the one
/// closest to another is dropped, but never the fastest, the cheapest, or the one with the fewest devices.
inline constexpr std::size_t max_pareto_front_size = 64;
class ParetoFront {
 public:
  explicit ParetoFront(std::size_t limit) : limit_(limit) {}

  /// Whether no plan of the front is as good.
  bool would_accept(const PlanObjectives& measure) const;
  void offer(const PlanCandidate& candidate);
  /// By time, then price, then devices.
  std::vector<PlanCandidate> plans() const;

 private:
  struct Point {
    PlanObjectives measure;
    PlanCandidate candidate;
  };
  void drop_closest();

  std::size_t limit_;
  std::vector<Point> points_;  // in the order of `plans`
};

}  // namespace dtfm::search
