// Options of dtfm-calibrate.
#pragma once

#include <optional>
#include <string>

#include "cli/common/output_format.hpp"
#include "cli/common/style.hpp"
#include "planner/request/calibrate_options.hpp"

namespace dtfm::cli {

struct CalibrateOptions : request::CalibrateOptions {
  std::optional<std::string> output;  // file
  OutputFormat format = OutputFormat::text;
  ColorChoice color = ColorChoice::automatic;
  bool quiet = false;
};

/// Runs the command and returns the exit code. Throws Error for bad input.
int run_calibrate_command(const CalibrateOptions& options);

}  // namespace dtfm::cli
