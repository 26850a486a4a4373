// Plans of which none is better than another in everything.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "planner/search/iteration_time/plan_candidate.hpp"

namespace dtfm::search {

/// What plans are measured by: less is better in all three.
struct PlanMeasure {
  double iteration_s = 0;
  double usd = std::numeric_limits<double>::infinity();  // of an iteration; infinite where it is not known
  int devices = 0;

  friend bool operator==(const PlanMeasure&, const PlanMeasure&) = default;
};

/// Is `a` as good in everything and better in something?
bool dominates(const PlanMeasure& a, const PlanMeasure& b);

/// The indices of those that no other dominates, by time, then price, then devices; of equal ones the first.
std::vector<std::size_t> undominated(const std::vector<PlanMeasure>& measures);

/// Of `candidate` with `plan`, as the estimate says.
PlanMeasure measure_of(const PlanCandidate& candidate, const Plan& plan);

/// A set of plans that fit, none of which dominates another. Of more than `most`, those that are closest to
/// another one go, but never the fastest, the cheapest, and the one with the fewest devices.
inline constexpr std::size_t most_in_front = 64;
class PlanFront {
 public:
  explicit PlanFront(std::size_t most) : most_(most) {}

  /// Is there no plan that is as good?
  bool wants(const PlanMeasure& measure) const;
  void offer(const PlanCandidate& candidate);
  /// By time, then price, then devices.
  std::vector<PlanCandidate> plans() const;

 private:
  struct Point {
    PlanMeasure measure;
    PlanCandidate candidate;
  };
  void drop_closest();

  std::size_t most_;
  std::vector<Point> points_;  // in the order of `plans`
};

}  // namespace dtfm::search
