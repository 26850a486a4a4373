// What the user asked dtfm-plan for.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/output_format.hpp"
#include "cli/common/style.hpp"
#include "planner/api/finalist_simulation.hpp"
#include "planner/core/objective.hpp"
#include "planner/search/comm_cost/strategy.hpp"

namespace dtfm::cli {

struct PlanOptions {
  std::string topology;            // file
  std::optional<std::string> job;  // file; nothing: the built-in one
  std::optional<int> batch;        // sequences; nothing: as the job says
  Objective objective = Objective::iteration_time;
  bool objective_given = false;
  std::optional<int> pipeline, data;              // nothing: not given, or auto
  bool pipeline_auto = false, data_auto = false;  // auto: whatever the job says
  std::optional<int> tensor;                      // nothing: not given, or auto
  bool tensor_auto = false;
  bool uniform_pipelines = false;          // pipelines, whatever the job says
  std::optional<std::string> calibration;  // file; nothing: the built-in constants
  std::vector<std::string> scenarios;      // files: the finalists are simulated under each
  std::optional<int> finalists;
  std::optional<api::RobustCriterion> robust;
  std::string strategy = std::string(search::default_strategy);
  std::uint64_t seed = 0;
  int threads = 1;
  std::optional<long long> evaluations;
  std::optional<double> time_limit;  // s
  bool prove = false;
  std::optional<std::string> score;                // file: a plan to score instead of a search
  std::optional<std::string> ranks;                // file: the devices of the ranks of a Megatron plan
  std::optional<std::string> warm_start;           // file: the plan that runs
  std::optional<double> horizon;                   // s
  std::optional<std::array<std::string, 2>> diff;  // files: two plans to compare instead of a search
  bool advise = false;                             // beside a score: what the planner would do
  bool explain = false;
  std::optional<std::string> output;  // file
  std::optional<std::string> pareto;  // file
  std::optional<std::string> report;  // file
  OutputFormat format = OutputFormat::text;
  ColorChoice color = ColorChoice::automatic;
  bool quiet = false;
  bool list_strategies = false;
};

/// The files that are written; empty names stand for none.
inline std::array<std::string, 3> output_files(const PlanOptions& options) {
  return {options.output.value_or(""), options.pareto.value_or(""), options.report.value_or("")};
}

/// Does what the options ask for; the exit code. Throws Error for bad input.
int run_plan_command(const PlanOptions& options);

}  // namespace dtfm::cli
