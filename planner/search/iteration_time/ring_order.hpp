// Order of pipelines for gradient synchronization in a ring.
#pragma once

#include "planner/search/iteration_time/plan_candidate.hpp"
#include "planner/search/iteration_time/plan_score.hpp"

namespace dtfm::search {

/// Returns the plan with its pipelines in an order in which gradients pass quickly from each one to the next:
/// improves their present order as long as exchanging two successive sequences of pipelines makes the ring
/// faster, by a formula for all rounds. The whole iteration need not become faster. Takes steps that grow
/// with the cube of the number of pipelines.
Plan order_ring(const cost::IterationModel& model, Plan plan);

/// Evaluates the candidate with that order. Returns it as it is if its gradients do not go around a ring, or
/// if it has too many pipelines.
PlanCandidate order_pipelines(const PlanCandidate& candidate, const PlanScore& score);

}  // namespace dtfm::search
