// Reads a running plan, from which the search for the next one starts.
#pragma once

#include <string>

#include "core/io/importers/foreign_plan.hpp"
#include "core/plan/problem.hpp"
#include "planner/api/warm_start.hpp"

namespace dtfm::io {

/// Reads a plan that dtfm-plan wrote. `fallback`: the job if the file has none. Throws Error.
api::RunningPlan read_running_plan(const std::string& file, const Job& fallback);
api::RunningPlan running_plan(const PlanSource& source, const Job& fallback);

/// "24 layers, not 32"
std::string format_model_difference(const api::ModelDifference& difference);

/// The warm start on the problem's topology; devices are matched by id. Throws Error if the plan trains
/// another model, and as api::check_migration_steps does.
search::WarmStart warm_start(const api::RunningPlan& running, const Problem& problem, double horizon_s);

}  // namespace dtfm::io
