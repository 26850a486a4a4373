// Reads the running plan that the command line names, and reports on resuming from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/plan/plan_options.hpp"
#include "planner/io/plan_document.hpp"
#include "planner/api/warm_start.hpp"
#include "core/plan/problem.hpp"
#include "core/io/readers/plan_reader.hpp"

namespace dtfm::cli {

struct RunningPlan {
  std::string file;
  io::StandalonePlan named;
  Job job;
};

/// Reads a plan that dtfm-plan wrote. `fallback`: the job if the file has none. Throws Error.
RunningPlan read_running_plan(const std::string& file, const Job& fallback);

/// The first difference between the models of two jobs, "24 layers, not 32"; empty if they are equal.
std::string format_model_difference(const Job& from, const Job& to);

/// The warm start on the problem's topology; devices are matched by id. Throws Error if the plan trains
/// another model.
search::WarmStart warm_start(const RunningPlan& running, const Problem& problem, double horizon_s);
/// Throws Error if there are too many steps to find from which device each of `devices` devices fetches its
/// state (api::migration_steps).
void check_migration_steps(const RunningPlan& running, double steps, int devices);
/// Reads the plan of --warm-start; empty without the option. Throws Error as `warm_start` does, and if no job
/// is given and the plan is not for the built-in one.
std::optional<search::WarmStart> read_warm_start(const PlanOptions& options, const Problem& problem);

/// The record of resuming with the best plan. Iteration times are estimates if none were simulated.
io::PlanRecord::WarmStart make_warm_start_record(const PlanOptions& options, const api::PlanResult& search,
                                                 const search::IterationSearchOptions& requested);

/// `input` is what the model counts.
std::string format_warm_start(const io::PlanRecord::WarmStart& warm, Objective objective, ModelInput input,
                              const Topology& topology);
/// A table of the devices and what they fetch; empty if no state is migrated.
std::string format_migration(const api::MigrationSummary& migration, const Topology& topology);

}  // namespace dtfm::cli
