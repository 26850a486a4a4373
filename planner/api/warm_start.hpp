// Resuming from a running plan: what must be migrated to the new plan, and whether that pays off.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/cluster/topology.hpp"
#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"
#include "planner/api/find_plans.hpp"
#include "planner/cost/iteration_time/migration_cost.hpp"

namespace dtfm::api {

/// How long a new plan is used by default. Prices and loads of shared machines change from hour to hour
/// in published traces, so a migration that pays off within two hours is likely to pay off.
inline constexpr double default_horizon_s = 2 * 3600;

/// The first difference between the models of two jobs. State can only be migrated between equal models.
struct ModelDifference {
  enum class Kind { layer_count, parameters, tied_parameters };
  Kind kind = Kind::layer_count;
  std::size_t layer = 0;    // that differs, unless the number of layers does
  double from = 0, to = 0;  // layers or parameters
};
/// Returns the first difference; empty if the models are equal.
std::optional<ModelDifference> model_difference(const Job& from, const Job& to);

/// A running plan with the ids of its devices, which may have left the topology since.
struct RunningPlan {
  Plan plan;  // devices are indices into `ids`
  std::vector<std::string> ids;
  Job job;                // decided
  std::string name = {};  // of its file
};

/// The warm start for a search on `topology`. Devices are matched by id.
search::WarmStart warm_start(const RunningPlan& running, const Topology& topology, double horizon_s);

/// What each device must fetch before the first iteration of a plan.
struct MigrationSummary {
  struct Device {
    int device = 0;
    std::vector<std::pair<int, int>> layers;  // ranges of layers whose state it must fetch
    double bytes = 0, checkpoint_bytes = 0;   // from other devices, from a checkpoint
    std::vector<int> sources;  // devices, or cost::no_device for a checkpoint; empty if unknown
  };
  double bytes = 0, checkpoint_bytes = 0;
  std::optional<double> seconds;  // without loading the checkpoint; empty if the network is unknown
  double usd = 0;                 // egress cost
  std::vector<Device> devices;
};
MigrationSummary summarize_migration(const cost::Migration& migration);
/// Ids of the devices from which a device fetches its state, or "a checkpoint".
std::vector<std::string> source_names(const MigrationSummary::Device& device, const Topology& topology);

/// Limit on the steps to find the sources of a migration, about ten seconds. Only stages of thousands of
/// devices exceed it.
inline constexpr double max_migration_steps = 1e9;
/// An upper bound on the steps to find from which device each of `devices` devices fetches its state.
/// Building the network of the problem dominates the time of the call.
double migration_steps(const Problem& problem, const search::WarmStart& running, int devices);
/// Throws Error if `steps`, for `devices` devices, are more than max_migration_steps.
void check_migration_steps(const RunningPlan& running, double steps, int devices);

struct PlanMigration {
  double steps = 0;                         // as in `migration_steps`; 0 if the network is not known
  std::optional<MigrationSummary> summary;  // empty if there are more than `max_migration_steps`
};
/// Returns what the devices of `after` must fetch if `before` was running. Both plans are for the model of
/// the problem, on devices of its topology; those of `before` may be gone. Unless `knows_network`, sources
/// and seconds are unknown, and the topology needs no links.
PlanMigration migration_between(const Problem& problem, const search::WarmStart& before,
                                const search::WarmStart& after, bool knows_network);

/// Why the running plan cannot continue unchanged.
enum class ContinuationObstacle { none, out_of_memory, devices_gone, not_allowed };

/// How the best plan of a search differs from the running plan.
struct WarmStartResult {
  bool keeps_plan = false;  // the best plan is the running one
  ContinuationObstacle obstacle = ContinuationObstacle::none;
  int devices = 0, devices_gone = 0;  // of the running plan
  MigrationSummary migration;         // to the best plan
  struct Gain {                       // of an iteration; in s, device-seconds, or USD per million tokens
    double value = 0, unchanged = 0;  // reduction of the objective; objective of the running plan
  };
  // Empty if the running plan cannot continue, or if one of the plans completes no iteration.
  std::optional<double> unchanged_iteration_s;
  std::optional<Gain> gain;
  std::optional<double> break_even_iterations;  // until the migration pays off; empty if there is no gain
};

/// `options`: those of the search that found `result`; they must have a warm start. Iteration times are the
/// simulated ones, or estimates if the finalists were not simulated.
WarmStartResult compare_with_running(const search::IterationSearchOptions& options, const FoundPlans& result);

}  // namespace dtfm::api
