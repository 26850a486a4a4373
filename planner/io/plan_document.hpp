// Writes plan files, schema dtfm-plan/1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "planner/api/plan_estimate.hpp"
#include "planner/api/target_times.hpp"
#include "planner/api/warm_start.hpp"
#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"
#include "core/cluster/topology.hpp"
#include "planner/cost/comm_cost/comm_cost.hpp"
#include "planner/search/search_options.hpp"

namespace dtfm::io {

/// Content of a plan file besides topology, job and plan. Unknown values are omitted from the file.
struct PlanRecord {
  /// One of the plans that were simulated to choose the result of the search.
  struct Finalist {
    search::PlanCandidate candidate;             // its `job` is not written
    std::vector<api::SimulatedTimes> simulated;  // by scenario; empty if it was not simulated
    api::Sensitivity sensitivity = {};           // empty if it is not known
  };
  /// How the plan was found.
  struct Search {
    std::string strategy;
    std::uint64_t seed = 0;
    long long evaluations = 0;
    search::Stopped stopped = search::Stopped::converged;
    std::vector<search::ConvergencePoint> convergence;  // costs in the unit that the search minimizes
  };
  /// What limits the plan and which changes would help, with sentences for the user.
  struct Explanation {
    cost::PlanExplanation found;
    std::vector<std::string> summary;  // of the bottleneck
    std::vector<std::string> changes;  // descriptions of `found.what_ifs`, in their order
    std::vector<std::string> scaling;  // when the plan becomes compute-bound
  };
  /// The plan that the planner recommends instead of a scored one.
  struct Advice {
    Finalist plan;
    std::string decisions;  // formatted for the user
    /// Relative reduction of the objective; not positive if no better plan was found; nullopt if the
    /// objective of the scored plan is unknown or infinite.
    std::optional<double> gain;
  };
  /// Describes how a plan differs from the running plan from which the search started.
  struct WarmStart {
    std::string plan;  // file name of the running plan
    double horizon_s = 0;
    api::WarmStartResult result;
    std::string obstacle;  // why the running plan cannot continue, for the user; empty if it can
  };

  Objective objective = Objective::iteration_time;
  std::optional<cost::CommCost> comm_cost;     // of a plan by communication cost
  std::optional<api::PlanEstimate> iteration;  // of a plan by iteration time
  std::optional<PredictionInterval> interval;  // for measured iteration times; nullopt if unknown
  std::optional<api::PlanBound> lower_bound;
  std::optional<Search> search;  // nullopt if the plan was scored
  std::optional<Explanation> explanation;
  std::vector<Finalist> finalists;  // beginning with the plan of the file
  /// PlanResult::fastest_undisturbed
  std::vector<api::SimulatedTimes> fastest_undisturbed;
  std::optional<api::CheckpointPeriod> checkpoint_period;
  std::optional<Advice> advice;
  std::vector<TargetChange> target_changes;  // of the job or the scored plan, by its target; not written
  std::vector<api::TargetTime> targets;      // empty if the plan is made for one, or if they are not known
  std::optional<WarmStart> warm_start;
  std::vector<std::string> warnings;
  std::string version;
};

/// The content of a plan file. Equal arguments give equal documents.
nlohmann::ordered_json plan_document(const Topology& topology, const Job& job, const Plan& plan,
                                     const PlanRecord& record);

/// What the planner may decide besides the devices and layers of stages: micro_batch, recompute, schedule,
/// chunks (0: none), flush (0: once per iteration), gradient_sync, optimizer_sharding, tensor, activations
/// and gradients.
nlohmann::ordered_json decisions_json(const Plan& plan);
/// [finalist]: those of its decisions in which the finalists differ.
std::vector<nlohmann::ordered_json> differing_decisions(const std::vector<PlanRecord::Finalist>& finalists);

/// Settings that a target replaces: a list of key, from and to.
nlohmann::ordered_json changes_json(const std::vector<TargetChange>& changes);
/// An element of `targets`: the time of a target with its changes, or its obstacle.
nlohmann::ordered_json target_json(const api::TargetTime& time);

/// `topology` has the devices of the migration.
nlohmann::ordered_json migration_json(const api::MigrationSummary& migration, const Topology& topology);

}  // namespace dtfm::io
