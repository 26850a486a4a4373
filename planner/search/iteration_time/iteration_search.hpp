// Search for the plan with the least iteration time (or an objective derived from it) over everything that a
// job leaves open: numbers of stages and replicas, devices, layers, micro-batches, and `auto` settings.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "planner/search/search_options.hpp"
#include "planner/search/iteration_time/initial_plans.hpp"
#include "planner/search/iteration_time/least_memory.hpp"
#include "planner/search/iteration_time/warm_start.hpp"

namespace dtfm::search {

/// Thrown if no plan has the requested numbers of stages and replicas.
class NoSuchShape : public Error {
 public:
  explicit NoSuchShape(const std::string& message) : Error("", message) {}
};

/// As long as no plan fits in memory, a search with a limit does not end before so many evaluations. Without
/// a limit, it ends after `max_unfit_evaluations` (search_effort.hpp). Chosen by hand.
inline constexpr long long min_evaluations = 1'000;

struct IterationSearchOptions {
  SearchOptions common;  // `evaluations` counts plans and moves; `prove` is for callers
  ShapeLimits limits;
  Objective objective = Objective::iteration_time;
  int finalists = 16;
  bool keeps_pareto_front = false;
  bool uses_full_budget = true;  // of evaluations or time; otherwise stops after the default rounds
  bool gives_up = false;         // ends after `evaluations` even if these are fewer than min_evaluations
  bool only_fits = false;        // ends with the first plan that fits in memory
  std::optional<WarmStart> warm = {};  // the running plan, from which state migrates
  std::vector<Churn> churn = {};       // scenarios in which devices leave, over which plans are compared
};

struct IterationSearchResult {
  std::vector<PlanCandidate> finalists;  // best first; of different shapes or decisions, as far as possible
  std::optional<PlanCandidate>
      unchanged;  // the running plan, if it can resume; also a finalist if it fits in memory
  /// The plan that is best without churn, of those evaluated; only under churn.
  std::optional<PlanCandidate> fastest_undisturbed;
  long long evaluations = 0;  // of plans and moves
  Stopped stopped = Stopped::converged;
  std::vector<ConvergencePoint> convergence;          // in the unit of the objective's score
  std::vector<std::pair<int, std::string>> unusable;  // devices that cannot be used, with reasons
  std::vector<int> unpriced;                 // devices not used because their price is needed but unknown
  std::vector<PlanCandidate> front;          // Pareto front of all plans, if requested
  std::vector<std::string> discarded;        // why plans could not be evaluated: internal errors
  std::optional<cost::MemoryNeed> shortage;  // if sums of bytes prove that no plan fits in memory
};

/// Steps of the search:
/// 0. Warm start (warm_start): the running plan is evaluated unchanged and repaired. All scores count only
/// the time that migration leaves of the horizon. Memory (least_memory): if sums of bytes prove that no plan
/// fits, a few of the plans that need least are evaluated, and nothing else is done.
/// 1. Early decisions (decision_search): every micro-batch, recomputation and tensor degree that is open,
/// with few shapes; then the schedule; then the tensor degree on each GPU model.
/// 2. Screening (plan_screening): all shapes of a coarse grid (or all shapes if they are few) in some
/// layouts, then all shapes near the best ones in all layouts.
/// 3. Decisions (decision_search): every micro-batch, if open, with some shapes of its own; then one open
/// decision at a time, starting from the best plans of different shapes. Every new combination is screened
/// again. Finally, one decision at a time is changed in the best plan of each of the best families.
/// 4. Annealing in rounds (annealing_rounds; successive halving): of the best plan of each shape, then of the
/// best plans so far. Each round keeps the better half of its starts, and all rounds have equally many moves.
/// Without a limit there are `default_rounds`, or, with many groups, fewer if two in succession find nothing
/// better. With a limit more rounds follow, each with twice the moves of the previous one.
/// 5. Evolution (evolution_epochs) of the best plans, after the default rounds and after each further one.
/// Pipelines may then have different depths.
///
/// A longer search with the same seed therefore begins like a shorter one and finds nothing worse.
/// `evaluations` limits all steps together, but not before the first plan and, unless the search gives up,
/// before a plan fits in memory or `min_evaluations` are used up. Independent tasks are folded in order, so
/// the result does not depend on the number of threads. If no plan fits in memory, the one that exceeds it
/// least is the only finalist. Throws Error if the compute times of no device are known, NoSuchShape if no
/// shape is within the limits.
IterationSearchResult search_iteration(const Problem& problem, const IterationSearchOptions& options);

}  // namespace dtfm::search
