// Plans of which none is better than another in everything.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "planner/search/iteration_time/plan_candidate.hpp"

namespace dtfm::search {

/// What plans are measured by: less is better in all three.
struct PlanObjectives {
  double iteration_s = 0;
  double usd = std::numeric_limits<double>::infinity();  // of an iteration; infinite where it is not known
  int devices = 0;

  friend bool operator==(const PlanObjectives&, const PlanObjectives&) = default;
};

/// Is `a` as good in everything and better in something?
bool dominates(const PlanObjectives& a, const PlanObjectives& b);

/// The indices of those that no other dominates, by time, then price, then devices; of equal ones the first.
std::vector<std::size_t> undominated(const std::vector<PlanObjectives>& measures);

/// Of `candidate` with `plan`, as the estimate says.
PlanObjectives plan_objectives(const PlanCandidate& candidate, const Plan& plan);

/// A set of plans that fit, none of which dominates another. Of more than `most`, those that are closest to
/// another one go, but never the fastest, the cheapest, and the one with the fewest devices.
inline constexpr std::size_t max_pareto_front_size = 64;
class ParetoFront {
 public:
  explicit ParetoFront(std::size_t limit) : limit_(limit) {}

  /// Is there no plan that is as good?
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
