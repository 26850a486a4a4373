// What dtfm-export is asked for, and its answer: files for trainers and launchers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/plan/target.hpp"
#include "planner/api/target_times.hpp"
#include "planner/export/export_bundle.hpp"
#include "planner/export/exporter.hpp"
#include "planner/request/option_list.hpp"

namespace dtfm::request {

struct ExportOptions {
  TextInput plan;                    // written by dtfm-plan
  std::vector<std::string> targets;  // names of exporters
  std::string folder;                // to write to
  std::optional<JobInput> job;       // if not given: that in the plan
  std::optional<TopologyInput> topology;
  std::optional<TextInput> hosts;
  std::optional<RankOrder> order;  // if not given: the default of the trainer
  exporter::LaunchSettings launch;
  std::optional<std::string> master;
  std::optional<TextInput> calibration;  // file or name; if not given: see calibration_for
  bool strict = false;                   // refuses plans that take longer than planned
  bool force = false;                    // writes to a folder with other files
};

/// Each declares the options under one heading of --help.
void add_export_inputs(OptionList& list, ExportOptions& options);
void add_target_options(OptionList& list, ExportOptions& options);
void add_launch_options(OptionList& list, ExportOptions& options);
/// Declares --force.
void add_force_option(OptionList& list, ExportOptions& options);

/// Throws Error for options that are missing or cannot be combined.
void check_export_options(const ExportOptions& options);

/// What the trainer makes of the plan.
struct TrainerTimes {
  api::TargetTime trainer;
  std::optional<double> planned_s = {};  // simulated; empty if the times are not known
  std::string unknown = {};              // why they are not

  /// Whether --strict refuses the plan.
  bool is_worse() const;
};
/// "megatron takes 47.73 s per iteration, 177 % longer than the planned 17.22 s: schedule …"
std::string format_times(const TrainerTimes& times);

struct ExportAnswer {
  exporter::ExportBundle bundle;
  std::optional<TrainerTimes> times = {};  // with a trainer that plans are made for
  exporter::ExportFiles files = {};
  std::vector<std::string> warnings = {};  // of devices whose memory is exceeded
  std::vector<std::string> notes = {};
};

/// Reads the inputs and makes the files. Throws Error for bad input, for plans that a target cannot express,
/// and if a file to be written is one of those that were read.
ExportAnswer make_export(const ExportOptions& options);

/// Writes the files, reads them back, and adds a note on other files in the folder. Throws Error if the
/// folder has other files, unless `options.force`, and if a file cannot be written or differs when read back.
void write_export(const ExportOptions& options, ExportAnswer& answer);

/// What was exported, as dtfm-export --format json prints it.
nlohmann::ordered_json export_document(const ExportOptions& options, const ExportAnswer& answer);

}  // namespace dtfm::request
