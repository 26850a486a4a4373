// Options of dtfm-compare.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/common/output_format.hpp"
#include "cli/common/style.hpp"
#include "planner/request/compare_options.hpp"

namespace dtfm::cli {

struct CompareOptions : request::CompareOptions {
  std::vector<std::string> common;            // options that must be the same in all processes
  std::optional<std::string> output, report;  // files
  OutputFormat format = OutputFormat::text;
  ColorChoice color = ColorChoice::automatic;
  bool quiet = false, list_schemes = false;
};

/// Runs the command and returns the exit code. Throws Error for bad input.
int run_compare_command(const CompareOptions& options);

}  // namespace dtfm::cli
