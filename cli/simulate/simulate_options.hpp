// Options of dtfm-sim.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/common/output_format.hpp"
#include "cli/common/style.hpp"
#include "planner/request/simulate_options.hpp"

namespace dtfm::cli {

struct SimulateOptions : request::SimulateOptions {
  std::optional<std::string> graph;  // file with a task graph to simulate instead of a plan
  std::vector<std::string> common;   // options that must be the same in all processes
  std::optional<std::string> output, trace, tasks, report;  // files
  OutputFormat format = OutputFormat::text;
  ColorChoice color = ColorChoice::automatic;
  bool stats = false, quiet = false;
};

/// Runs the command and returns the exit code. Throws Error for bad input.
int run_simulate_command(const SimulateOptions& options);

}  // namespace dtfm::cli
