// Formats what is known about a plan as text.
#pragma once

#include <string>
#include <vector>

#include "planner/api/plan_answer.hpp"

namespace dtfm::cli {

/// A plan by communication cost: its cost, the slowest steps and links, and the bounds.
std::string format_comm_cost_summary(const api::PlanAnswer& answer);
/// A plan by iteration time: its decisions, times, memory and finalists. `changes`: those that the target
/// makes to the job or the given plan.
std::string format_iteration_summary(const api::PlanAnswer& answer, const std::vector<TargetChange>& changes);

/// The blocks "Bottleneck", "What if" and "When compute is the bottleneck". The answer must have an
/// explanation.
std::string format_explanation(const api::PlanAnswer& answer);

/// A table of a few evenly spaced points, including the first and the last, and which point the plan
/// `summarized` is, whose summary precedes it; empty if there are none.
std::string format_pareto_front(const api::ParetoFront& front, const Plan& summarized,
                                const std::string& file);

/// How the plan differs from the running plan from which its search started. `input` is what the model
/// counts.
std::string format_warm_start(const api::WarmStartAnswer& warm, Objective objective, ModelInput input,
                              const Topology& topology);
/// A table of the devices and what they fetch; empty if no state is migrated.
std::string format_migration(const api::MigrationSummary& migration, const Topology& topology);

/// Tables of the answers to questions; empty without one.
std::string format_smallest_cluster(const api::PlanAnswer& answer);
std::string format_least_bandwidth(const api::PlanAnswer& answer);

}  // namespace dtfm::cli
