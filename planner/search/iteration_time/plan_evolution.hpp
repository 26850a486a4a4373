// Steady-state evolutionary search over plans whose pipelines may have different depths.
#pragma once

#include <functional>
#include <vector>

#include "planner/core/rng.hpp"
#include "planner/search/iteration_time/initial_plans.hpp"
#include "planner/search/iteration_time/plan_candidate.hpp"
#include "planner/search/iteration_time/plan_score.hpp"

namespace dtfm::search {

/// Whether the plans of a decided job can be evolved: its pipelines may differ, all stages have the same
/// tensor degree, micro-batches need not come in rounds, and there are few groups.
bool can_evolve(const DecidedJob& job);

/// Evolves `population`, plans of one decided job that can be evolved, and returns it, best first. Creates
/// `children` children, one at a time. A child is a plan with one random change: a group is moved, added,
/// removed or exchanged; a pipeline is split, partly reversed, exchanged or joined with another; pipelines of
/// two plans are recombined; or a layer or micro-batch is moved. Layers of changed pipelines are split again,
/// and micro-batches balanced, except after a move of a layer or micro-batch. A new child joins the
/// population, and the worst plan leaves it if it is full. `stop` is called before every child.
std::vector<PlanCandidate> evolve_plans(std::vector<PlanCandidate> population, const ShapeLimits& limits,
                                        const PlanScore& score, int children, Rng& rng,
                                        const std::function<bool()>& stop);

}  // namespace dtfm::search
