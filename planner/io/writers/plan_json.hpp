// The plan file of the contract, schema dtfm-plan/1.
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
#include "planner/core/plan.hpp"
#include "planner/core/topology.hpp"

namespace dtfm::io {

/// What a plan file says besides the topology, the job and who computes what. What is not known is left out.
struct PlanRecord {
  struct CommCostEstimate {
    double data_parallel = 0, pipeline_parallel = 0;  // s
  };
  /// By the closed formulas of planner/cost/iteration_time/iteration_time.
  struct IterationEstimate {
    double iteration_time_s = 0, tokens_per_s = 0, model_flops_per_s = 0;
    std::optional<double> cost_per_million_tokens;            // USD; nothing: a price is not known
    std::vector<std::pair<std::string, double>> breakdown_s;  // names and seconds
    struct Memory {
      int device = 0;
      double needed_bytes = 0, capacity_bytes = 0;
    };
    std::vector<Memory> memory;            // of devices whose GPU is known
    double egress_per_million_tokens = 0;  // USD of its cost, for what is sent
  };
  /// What the job may leave open: `micro_batch`, say, and what it is.
  struct Decision {
    std::string name;
    std::variant<int, double, std::string> value;
    friend bool operator==(const Decision&, const Decision&) = default;
  };
  /// A plan that was simulated to choose the one of the file.
  struct Finalist {
    int pipeline = 0, data = 0, tensor = 0, devices = 0;
    double iteration_time_s = 0;  // estimated
    struct Simulated {
      std::string scenario;
      double mean_s = 0, p95_s = 0, max_s = 0;
    };
    std::vector<Simulated> simulated;  // an iteration under each scenario; infinite where none was completed
    std::vector<Decision> decisions = {};  // in which finalists differ
    std::optional<double> migration_s = {};   // before the first one; nothing: it goes on from no other plan
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

  /// Of a plan by iteration time: what its time hangs on, and what would change it.
  struct Explanation {
    std::string dominant;              // stages, hops, exchange, update, overhead
    double seconds = 0, share = 0;  // of the iteration, that hang on it
    struct PipelineResource {                // of the slowest pipeline, on which most hangs
      bool is_hop = false;
      int pipeline = 0, stage = 0;
      double seconds = 0, latency_s = 0;
    };
    PipelineResource resource;
    std::vector<std::pair<std::string, double>> parts_s;  // of the iteration, names and seconds
    struct PeakMemory {
      int device = 0;
      double needed_bytes = 0, capacity_bytes = 0, state_bytes = 0;
    };
    std::optional<PeakMemory> peak_memory;       // nothing: no memory is known
    std::vector<std::string> bottleneck_summary;  // in words
    struct Change {
      std::string change, text;
      double iteration_time_s = 0, gain = 0;
      bool fits = true;
      std::string impossible;  // why; empty: there are numbers
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
    std::vector<std::string> scaling;  // from where on computing binds, in words
  };

  /// What the planner would do instead of a plan that was scored.
  struct Advice {
    Finalist plan;
    std::string decisions;  // in words
    /// Of what is minimised, as a share; not above 0: nothing better was found; nothing: of the plan as given
    /// it is not known, or no number.
    std::optional<double> gain;
  };
  /// What devices fetch before they can go on from another plan. Ids, for a device may be of either topology.
  struct Migration {
    struct Device {
      std::string id;
      std::vector<std::pair<int, int>> layers;  // of which it lacks something
      double bytes = 0, checkpoint_bytes = 0;
      std::vector<std::string> from;
    };
    double bytes = 0, checkpoint_bytes = 0;
    std::optional<double> seconds;  // without the checkpoint; nothing: the network is not known
    double usd = 0;                 // for what is sent over links with a price
    std::vector<Device> devices;
  };
  /// Of a plan that goes on from another one.
  struct WarmStart {
    std::string plan;  // the file
    double horizon_s = 0;
    bool keeps_plan = false;
    std::string cannot_keep_reason;            // why; empty: the old plan could go on
    struct Gain {                       // an iteration
      double value = 0, unchanged = 0;  // of what is minimised: what the old plan would take more, and in all
      std::string unit;
    };
    std::optional<double> unchanged_iteration_time_s;
    std::optional<Gain> gain;
    std::optional<double> break_even_iterations;  // iterations; nothing: the plan gains nothing by the objective
    Migration migration;
  };

  std::string objective;
  std::optional<CommCostEstimate> comm_cost;
  std::optional<IterationEstimate> iteration;
  std::optional<PredictionInterval> interval;  // of measured iterations; nothing: not known
  std::optional<Bound> lower_bound;
  std::optional<Search> search;
  std::optional<Explanation> explanation;
  std::vector<Finalist> finalists;  // the plan's own first
  std::optional<Advice> advice;
  std::optional<WarmStart> warm_start;
  std::vector<std::string> warnings;
  std::string version;
};

/// The text of a plan file. Same arguments, same bytes.
std::string plan_json(const Topology& topology, const Job& job, const Plan& plan, const PlanRecord& record);

/// The same, to be a part of another document.
nlohmann::ordered_json plan_document(const Topology& topology, const Job& job, const Plan& plan,
                                     const PlanRecord& record);
nlohmann::ordered_json decisions_json(const std::vector<PlanRecord::Decision>& decisions);
nlohmann::ordered_json migration_json(const PlanRecord::Migration& migration);

/// The job in the words of a job file: as YAML, which JSON is, it reads back as the same job.
nlohmann::ordered_json job_json(const Job& job);

}  // namespace dtfm::io
