// Reads the running plan that the command line names, and reports on resuming from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/plan/plan_options.hpp"
#include "planner/api/warm_start.hpp"
#include "planner/core/problem.hpp"
#include "planner/io/readers/plan_reader.hpp"
#include "planner/io/writers/plan_json.hpp"

namespace dtfm::cli {

struct RunningPlan {
  std::string file;
  io::StandalonePlan named;
  Job job;  // that it is for
};

/// A plan that dtfm-plan wrote. `fallback`: the job, where the file has none. Throws Error.
RunningPlan read_running_plan(const std::string& file, const Job& fallback);

/// The first difference between the models of two jobs, "24 layers, not 32"; empty if they are equal.
std::string format_model_difference(const Job& from, const Job& to);

/// On the devices of the problem's topology, by their ids. Throws Error where the model is another one,
/// or the plan's schedule cannot run it.
search::WarmStart warm_start(const RunningPlan& running, const Problem& problem, double horizon_s);
/// Throws Error if finding the sources from which each of `devices` devices fetches its missing state would
/// take too long, as it does with stages of thousands of devices.
void check_migration_effort(const RunningPlan& running, const cost::MigrationCost& cost, int devices);
/// The plan of the options, if there is one, for `problem`. Throws Error also where no job is given and the
/// plan is not for the built-in one.
std::optional<search::WarmStart> read_warm_start(const PlanOptions& options, const Problem& problem);

io::PlanRecord::Migration make_migration_record(const api::MigrationSummary& migration,
                                                const Topology& topology);

/// The record of resuming with the best plan. Iteration times are estimates if none were simulated.
io::PlanRecord::WarmStart make_warm_start_record(const PlanOptions& options, const api::PlanResult& search,
                                                 const search::IterationSearchOptions& requested);

std::string format_warm_start(const io::PlanRecord::WarmStart& warm);
/// A table of the devices and what they fetch; empty if no state is migrated.
std::string format_migration(const io::PlanRecord::Migration& migration);

}  // namespace dtfm::cli
