// Writes plan files, schema dtfm-plan/1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "planner/api/plan_estimate.hpp"
#include "planner/core/job.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/topology.hpp"
#include "planner/cost/comm_cost/comm_cost.hpp"
#include "planner/search/comm_cost/strategy.hpp"

namespace dtfm::io {

/// Content of a plan file besides topology, job and plan. Unknown values are omitted from the file.
struct PlanRecord {
  /// One of the plans that were simulated to choose the result of the search.
  struct Finalist {
    search::PlanCandidate candidate;             // its `job` is not written
    std::vector<api::SimulatedTimes> simulated;  // by scenario; empty if it was not simulated
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
  /// Data that devices fetch before they can resume from another plan. Devices are given by their ids,
  /// because they may belong to either topology.
  struct Migration {
    struct Device {
      std::string id;
      std::vector<std::pair<int, int>> layers;  // ranges of layers whose state it must fetch
      double bytes = 0, checkpoint_bytes = 0;   // from other devices, from a checkpoint
      std::vector<std::string> from;            // device ids, or "a checkpoint"
    };
    double bytes = 0, checkpoint_bytes = 0;
    std::optional<double> seconds;  // without loading the checkpoint; nullopt if the network is unknown
    double usd = 0;                 // egress cost
    std::vector<Device> devices;
  };
  /// Describes how a plan differs from the running plan from which the search started.
  struct WarmStart {
    std::string plan;  // file name of the running plan
    double horizon_s = 0;
    bool keeps_plan = false;
    std::string cannot_keep_reason;     // why the old plan cannot resume; empty if it can
    struct Gain {                       // of an iteration, in terms of the objective
      double value = 0, unchanged = 0;  // reduction of the objective; objective of the old plan
      std::string unit;
    };
    std::optional<double> unchanged_iteration_time_s;
    std::optional<Gain> gain;
    std::optional<double> break_even_iterations;  // until migration pays off; nullopt if there is no gain
    Migration migration;
  };

  Objective objective = Objective::iteration_time;
  std::optional<cost::CommCost> comm_cost;
  std::optional<api::PlanEstimate> iteration;
  std::optional<PredictionInterval> interval;  // for measured iteration times; nullopt if unknown
  std::optional<api::PlanBound> lower_bound;
  std::optional<Search> search;
  std::optional<Explanation> explanation;
  std::vector<Finalist> finalists;  // beginning with the plan of the file
  std::optional<Advice> advice;
  std::optional<WarmStart> warm_start;
  std::vector<std::string> warnings;
  std::string version;
};

/// A plan file. Equal arguments give equal bytes.
nlohmann::ordered_json plan_document(const Topology& topology, const Job& job, const Plan& plan,
                                     const PlanRecord& record);

/// What the planner may decide besides the devices and layers of stages: micro_batch, recompute, schedule,
/// chunks (0: none), flush (0: once per iteration), gradient_sync, tensor, activations and gradients.
nlohmann::ordered_json decisions_json(const Plan& plan);
/// [finalist]: those of its decisions in which the finalists differ.
std::vector<nlohmann::ordered_json> differing_decisions(const std::vector<PlanRecord::Finalist>& finalists);

nlohmann::ordered_json migration_json(const PlanRecord::Migration& migration);

}  // namespace dtfm::io
