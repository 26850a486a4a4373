// Writes plan files, schema dtfm-plan/1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "planner/api/plan_estimate.hpp"
#include "planner/core/calibration.hpp"
#include "planner/core/job.hpp"
#include "planner/core/objective.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/topology.hpp"
#include "planner/cost/comm_cost/comm_cost.hpp"
#include "planner/search/comm_cost/strategy.hpp"

namespace dtfm::io {

/// Content of a plan file besides topology, job and plan. Unknown values are omitted from the file.
struct PlanRecord {
  /// A setting that the job may leave to the planner, for example `micro_batch`, with its value.
  struct Decision {
    std::string name;
    std::variant<int, double, std::string> value;
    friend bool operator==(const Decision&, const Decision&) = default;
  };
  /// One of the plans that were simulated to choose the result of the search.
  struct Finalist {
    int pipeline = 0, data = 0, tensor = 0, devices = 0;
    double iteration_time_s = 0;  // estimated
    struct Simulated {
      std::string scenario;
      double mean_s = 0, p95_s = 0, max_s = 0;
    };
    std::vector<Simulated> simulated;        // iteration times by scenario; infinite if none was completed
    std::vector<Decision> decisions = {};    // those in which finalists differ
    std::optional<double> migration_s = {};  // before the first iteration; nullopt without a warm start
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
nlohmann::ordered_json decisions_json(const std::vector<PlanRecord::Decision>& decisions);
nlohmann::ordered_json migration_json(const PlanRecord::Migration& migration);

}  // namespace dtfm::io
