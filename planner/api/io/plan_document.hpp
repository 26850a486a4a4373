// Writes plan files, schema dtfm-plan/1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "planner/core/calibration.hpp"
#include "planner/core/job.hpp"
#include "planner/core/objective.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/topology.hpp"

namespace dtfm::io {

/// Content of a plan file besides topology, job and plan. Unknown values are omitted from the file.
struct PlanRecord {
  struct CommCostEstimate {
    double data_parallel = 0, pipeline_parallel = 0;  // seconds
  };
  /// Estimates by the closed formulas of planner/cost/iteration_time/iteration_time.
  struct IterationEstimate {
    double iteration_time_s = 0, tokens_per_s = 0, model_flops_per_s = 0;
    std::optional<double> cost_per_million_tokens;            // USD; nullopt if a price is unknown
    std::vector<std::pair<std::string, double>> breakdown_s;  // names and seconds
    struct Memory {
      int device = 0;
      double needed_bytes = 0, capacity_bytes = 0;
    };
    std::vector<Memory> memory;            // of devices whose GPU is known
    double egress_per_million_tokens = 0;  // USD for sent data; part of cost_per_million_tokens
  };
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
  struct Bound {
    double value = 0;  // in the unit of the objective
    std::string unit;
    double gap = 0;  // (cost − value) ÷ cost
    std::string method;
  };
  struct Search {
    std::string strategy;
    std::uint64_t seed = 0;
    long long evaluations = 0;
    std::string stopped;
    std::vector<std::pair<long long, double>> convergence;  // evaluations, best cost
  };

  /// The bottleneck of a plan that was searched or scored by iteration time, and changes that would help.
  struct Explanation {
    std::string dominant;           // part of the iteration with the largest critical-path share
    double seconds = 0, share = 0;  // critical-path share of that part: in s, and as a fraction
    struct PipelineResource {       // with the largest critical-path share in the slowest pipeline
      bool is_hop = false;
      int pipeline = 0, stage = 0;
      double seconds = 0, latency_s = 0;
    };
    PipelineResource resource;
    std::vector<std::pair<std::string, double>> parts_s;  // parts of the iteration: names and seconds
    struct PeakMemory {
      int device = 0;
      double needed_bytes = 0, capacity_bytes = 0, state_bytes = 0;
    };
    std::optional<PeakMemory> peak_memory;        // nullopt if no GPU's memory is known
    std::vector<std::string> bottleneck_summary;  // sentences for the user
    struct Change {
      std::string change, text;
      double iteration_time_s = 0, gain = 0;
      bool fits = true;
      std::string impossible;  // reason; empty if the change is possible
    };
    std::vector<Change> changes;
    struct Performance {
      double iteration_time_s = 0, tokens_per_s = 0, model_flops_per_s = 0, compute_s = 0, sending_s = 0,
             sync_s = 0;
      bool fits = true;
    };
    Performance now;
    std::optional<Performance> double_width;
    std::optional<double> compute_bound_compression, compute_bound_width;
    std::vector<std::string> scaling;  // when the plan becomes compute-bound: sentences for the user
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
  std::optional<CommCostEstimate> comm_cost;
  std::optional<IterationEstimate> iteration;
  std::optional<PredictionInterval> interval;  // for measured iteration times; nullopt if unknown
  std::optional<Bound> lower_bound;
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
