// Evolutionary search over whole plans, whose pipelines may have different depths.
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

/// Evolves `population`, plans of one decided job that can be evolved, by `children` children, and returns
/// it, best first. A child is a plan with a group moved, added, removed or exchanged, a pipeline split,
/// reversed or joined with another, pipelines of two plans recombined, or a layer or micro-batch moved.
/// Layers of changed pipelines are split anew, and micro-batches balanced. A child replaces the worst plan if
/// it is better. `stop` is called before every child.
std::vector<PlanCandidate> evolve_plans(std::vector<PlanCandidate> population, const ShapeLimits& limits,
                                        const PlanScore& score, int children, Rng& rng,
                                        const std::function<bool()>& stop);

}  // namespace dtfm::search
