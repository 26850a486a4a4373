// Options of dtfm-plan.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/output_format.hpp"
#include "cli/common/style.hpp"
#include "planner/request/plan_options.hpp"

namespace dtfm::cli {

struct PlanOptions : request::PlanOptions {
  std::vector<std::string> common;                       // options that must be the same in all processes
  std::optional<std::array<std::string, 2>> diff;        // files with two plans to compare
  std::optional<std::string> output;                     // file
  std::optional<std::string> pareto;                     // file
  std::optional<std::string> report;                     // file
  std::optional<std::string> saved_topology, saved_job;  // files
  OutputFormat format = OutputFormat::text;
  ColorChoice color = ColorChoice::automatic;
  bool quiet = false;
  bool list_strategies = false, list_targets = false, describes_model = false;
};

/// Returns the output files; the name is empty if an option is not given.
inline std::array<std::string, 5> output_files(const PlanOptions& options) {
  return {options.output.value_or(""), options.pareto.value_or(""), options.report.value_or(""),
          options.saved_topology.value_or(""), options.saved_job.value_or("")};
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
