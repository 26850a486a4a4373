// Options of dtfm-export.
#pragma once

#include "cli/common/output_format.hpp"
#include "cli/common/style.hpp"
#include "planner/request/export_options.hpp"

namespace dtfm::cli {

struct ExportOptions : request::ExportOptions {
  bool list_targets = false, quiet = false;
  OutputFormat format = OutputFormat::text;
  ColorChoice color = ColorChoice::automatic;
};

/// Runs the command and returns the exit code. Throws Error for bad input and for plans that a target cannot
/// express; then no file is written.
int run_export_command(const ExportOptions& options);

}  // namespace dtfm::cli
