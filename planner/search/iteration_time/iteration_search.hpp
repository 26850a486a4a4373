// The search for the plan with the least iteration time (or what follows from it), over everything that a job
// leaves open: numbers of stages and replicas, devices, layers, micro-batches, and what the job calls `auto`.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/error.hpp"

#include "planner/search/comm_cost/strategy.hpp"
#include "planner/search/iteration_time/initial_plans.hpp"
#include "planner/search/iteration_time/warm_start.hpp"

namespace dtfm::search {

/// Thrown where no plan has the numbers of stages and replicas that are asked for.
class NoSuchShape : public Error {
 public:
  explicit NoSuchShape(const std::string& message) : Error("", message) {}
};

struct IterationSearchOptions {
  SearchOptions common;  // `evaluations`: plans and moves to price; `prove` means nothing here
  ShapeLimits limits;
  Objective objective = Objective::iteration_time;
  int finalists = 8;
  bool keeps_pareto_front = false;
  bool uses_full_budget = true;        // to the end of the evaluations or the time that are given
  std::optional<WarmStart> warm = {};  // the plan that runs: what follows has to be moved to
};

struct IterationSearchResult {
  std::vector<PlanCandidate>
      finalists;  // best first; no two alike in shape and decisions, while there are others
  std::optional<PlanCandidate>
      unchanged;              // the plan that runs, where it can go on: also a finalist if it fits
  long long evaluations = 0;  // plans and moves that were priced
  Stopped stopped = Stopped::converged;
  std::vector<ConvergencePoint> convergence;          // in the unit of the objective's score
  std::vector<std::pair<int, std::string>> unusable;  // devices on which nothing can be put, and why
  std::vector<int> unpriced;         // devices left out because their price is needed and not known
  std::vector<PlanCandidate> front;  // if asked for, of all plans (ParetoFront)
};

/// 0. Where a plan runs: it as it is, and repaired (planner/search/iteration_time/warm_start). All scores are
/// of the time that is left after moving.
/// 1. Screen: every shape of a coarse grid (of few: every shape), laid out in a few ways; then all shapes
/// near the best of them, in all ways.
/// 2. Decide: every micro-batch, where that is open, with some shapes of its own; then what is open, one
/// decision after the other, by the best plans of different shapes; with each new one, screen again.
/// 3. Anneal the best plans, then the best of these again; in rounds, of which each leaves the better half of
/// the starts to share out as many moves. Without a limit there are `default_rounds`; with one they go on,
/// each with twice the moves of the one before.
///
/// So a longer search of the same seed begins with all that a shorter one does, and finds nothing worse.
/// `evaluations` ends every part, but not before there is a plan that fits. Threads work on independent
/// pieces and are folded in order, so that their number means nothing. If no plan fits the memory of its
/// devices, the one that lacks least is the only finalist. Throws Error where no device's times are known,
/// NoSuchShape where there is no shape within the limits.
IterationSearchResult search_iteration(const Problem& problem, const IterationSearchOptions& options);

}  // namespace dtfm::search
