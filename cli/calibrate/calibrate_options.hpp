// Options of dtfm-calibrate.
#pragma once

#include <optional>
#include <string>

#include "cli/common/output_format.hpp"
#include "cli/common/style.hpp"

namespace dtfm::cli {

struct CalibrateOptions {
  std::string topology, runs;         // files
  std::optional<std::string> job;     // file; if not given: the jobs of the plans, else GPT-3 XL
  std::optional<std::string> output;  // file
  int threads = 1;
  OutputFormat format = OutputFormat::text;
  ColorChoice color = ColorChoice::automatic;
  bool quiet = false;
};

/// Runs the command and returns the exit code. Throws Error for bad input.
int run_calibrate_command(const CalibrateOptions& options);

}  // namespace dtfm::cli
