// Options of dtfm-export.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/common/output_format.hpp"
#include "cli/common/style.hpp"
#include "core/plan/target.hpp"
#include "planner/export/export_bundle.hpp"

namespace dtfm::cli {

struct ExportOptions {
  std::string plan;                  // file
  std::vector<std::string> targets;  // names of exporters
  std::string folder;
  std::optional<std::string> job, topology, hosts;  // files
  std::optional<RankOrder> order;                   // if not given: the default of the trainer
  exporter::LaunchSettings launch;
  std::optional<std::string> master;
  std::optional<std::string> calibration;  // file or name; if not given: see calibration_for
  bool strict = false;                     // refuses plans that take longer than planned
  bool force = false, list_targets = false, quiet = false;
  OutputFormat format = OutputFormat::text;
  ColorChoice color = ColorChoice::automatic;
};

/// Runs the command and returns the exit code. Throws Error for bad input and for plans that a target cannot
/// express; then no file is written.
int run_export_command(const ExportOptions& options);

}  // namespace dtfm::cli
