// Simulated annealing of one plan by its estimated iteration time.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "planner/core/rng.hpp"
#include "planner/search/iteration_time/pareto_front.hpp"
#include "planner/search/iteration_time/plan_candidate.hpp"
#include "planner/search/iteration_time/plan_score.hpp"

namespace dtfm::search {

struct PlanCoolingSchedule {
  long long moves = 0;
  double initial_temperature = 0, final_temperature = 0;          // temperatures as shares of the score
  long long evaluations = std::numeric_limits<long long>::max();  // after so many it is cut short
  bool keeps_pareto_front = false;
};

inline constexpr int moves_between_stop_checks = 256;

struct AnnealedPlan {
  PlanCandidate best;
  long long evaluations = 0;         // of `start`, and of every move that changed something
  bool is_complete = true;           // all moves were made
  std::vector<PlanCandidate> front;  // what was best on the way by time or price, if asked for
};

/// Moves of all annealing of a search among 64 units or more, if nothing else limits it: so many as the wall
/// times of docs/validation.md asked for.
inline constexpr long long default_moves = 240'000;
/// How many times as many there are among so few units, where a move takes little: 1 to 4.
double move_multiplier(std::size_t tensor_groups);
/// `moves`, more of them among few units, or as many as one of so many equal parts of a search's effort
/// allows.
long long affordable_moves(const PlanCandidate& start, double moves, double parts);

/// The best plan on the way from `start`, which keeps its numbers of stages and pipelines. Moves: exchange
/// two units, one with an unused one, one for one near a neighbour, the rest of two pipelines, two stages of
/// all pipelines; move a layer over a boundary of all pipelines or of one; move micro-batches from one
/// pipeline to another; where degrees are unlike, take half of its devices from a stage, or give it as many
/// again. Where memory asks for drains and the job does not say how often, they stay as rare as fits. `stop`
/// is asked every `moves_between_stop_checks` moves.
AnnealedPlan anneal_plan(const PlanCandidate& start, const PlanScore& score,
                         const PlanCoolingSchedule& cooling, Rng& rng, const std::function<bool()>& stop);

}  // namespace dtfm::search
