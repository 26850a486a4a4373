// Options of dtfm-plan.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/common/output_format.hpp"
#include "cli/common/style.hpp"
#include "core/base/work.hpp"
#include "core/plan/objective.hpp"
#include "core/plan/target_kind.hpp"
#include "planner/api/plan_request.hpp"

namespace dtfm::cli {

struct PlanOptions {
  std::string topology;              // file
  std::optional<std::string> job;    // file; if not given: GPT-3 XL, or the job in the scored plan
  std::optional<std::string> model;  // config.json or preset; if not given: of the job
  std::optional<int> sequence;       // tokens; if not given: of the model
  std::optional<int> batch;          // sequences; if not given: that of the job
  Objective objective = Objective::iteration_time;
  bool objective_given = false;
  std::optional<api::QuestionKind> question;  // named by --objective; the objective is then iteration time
  std::optional<double> max_iteration_s, min_throughput;
  std::optional<std::pair<std::string, std::string>> link;  // names of two sites
  std::optional<int> pipeline, data;                        // empty if not given, or auto
  bool pipeline_auto = false, data_auto = false;            // `auto` overrides the job
  std::optional<int> tensor;                                // empty if not given, or auto
  bool tensor_auto = false;
  std::optional<int> context, expert;  // as tensor
  bool context_auto = false, expert_auto = false;
  std::optional<Target> target;            // of the job, if not given
  bool uniform_pipelines = false;          // also if the job allows heterogeneous ones
  std::optional<std::string> calibration;  // file or name of a shipped one; if not given: see calibration_for
  std::vector<std::string> scenarios;      // files; the finalists are simulated under each
  std::optional<int> finalists;
  std::optional<api::RobustCriterion> robust;
  std::optional<double> near_equal;  // share of the best plan's objective
  std::string strategy = std::string(api::default_strategy);
  std::uint64_t seed = 0;
  Work work;                        // threads, ranks and time limit
  std::vector<std::string> common;  // options that must be the same in all processes
  std::optional<long long> evaluations;
  // Start of the command, from which its time limit counts.
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  bool prove = false;
  std::optional<std::string> score;                // file with a plan to score instead of searching
  std::optional<std::string> ranks;                // file with the device of each rank of a Megatron-LM plan
  std::optional<std::string> warm_start;           // file with the running plan
  std::optional<double> horizon;                   // s
  std::optional<std::array<std::string, 2>> diff;  // files with two plans to compare
  bool advise = false;                             // with `score`: also search, and compare the plans
  bool explain = false;
  std::optional<std::string> output;  // file
  std::optional<std::string> pareto;  // file
  std::optional<std::string> report;  // file
  OutputFormat format = OutputFormat::text;
  ColorChoice color = ColorChoice::automatic;
  bool quiet = false;
  bool list_strategies = false, list_targets = false, describes_model = false;
};

/// Whether the user gives the job, or its model.
inline bool gives_job(const PlanOptions& options) {
  return options.job || options.model;
}

/// Returns the output files; the name is empty if an option is not given.
inline std::array<std::string, 3> output_files(const PlanOptions& options) {
  return {options.output.value_or(""), options.pareto.value_or(""), options.report.value_or("")};
}

/// Runs the command and returns the exit code. Throws Error for bad input.
int run_plan_command(const PlanOptions& options);

/// Prints what the model consists of. Returns the exit code. Throws Error for bad input.
int describe_model(const PlanOptions& options);

/// Prints how the plans of `options.diff` differ, and the state migration from the first to the second; with
/// a topology, also its sources and duration. Returns exit code 0 whether or not they differ. Throws Error
/// for bad input.
int run_plan_diff(const PlanOptions& options);

}  // namespace dtfm::cli
