// Simulated annealing of one plan by its estimated iteration time.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "core/base/rng.hpp"
#include "planner/search/iteration_time/pareto_front.hpp"
#include "planner/search/iteration_time/plan_candidate.hpp"
#include "planner/search/iteration_time/plan_score.hpp"

namespace dtfm::search {

struct PlanCoolingSchedule {
  long long moves = 0;
  double initial_temperature = 0, final_temperature = 0;          // as fractions of the score
  long long evaluations = std::numeric_limits<long long>::max();  // limit after which it is cut short
  bool keeps_pareto_front = false;
};

inline constexpr int moves_between_stop_checks = 256;

struct AnnealedPlan {
  PlanCandidate best;
  long long evaluations = 0;         // of the start, and of every move that changed something
  bool is_complete = true;           // all moves were made
  std::vector<PlanCandidate> front;  // Pareto front of the plans on the way, if requested
  std::string discarded = {};        // why a plan could not be evaluated; empty if all could
};

/// How many moves from this plan fit into one of `parts` equal parts of the steps of all annealing.
double affordable_evaluations(const PlanCandidate& plan, double parts);
/// `moves`, but at most as many as affordable_evaluations, and at least 500.
long long affordable_moves(const PlanCandidate& start, double moves, double parts);

/// Anneals from `start` with the same numbers of stages and pipelines, and returns the best plan on the way
/// (plan_moves.hpp). If memory requires flushes and the job does not fix their interval, they stay as rare as
/// possible. `stop` is called every `moves_between_stop_checks` moves; a stopped score ends the annealing,
/// too.
AnnealedPlan anneal_plan(const PlanCandidate& start, const PlanScore& score,
                         const PlanCoolingSchedule& cooling, Rng& rng, const std::function<bool()>& stop);

}  // namespace dtfm::search
