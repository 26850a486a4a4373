// The table of export targets (trainers and launchers), and the export itself: a plan that a target cannot
// express is rejected before any file is written, and the generated files are parsed and compared with the
// plan.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/export/export_bundle.hpp"
#include "planner/export/exported_setting.hpp"
#include "planner/export/rank_table.hpp"

namespace dtfm::exporter {

struct ExportFile {
  std::string name, text;
  bool is_executable = false;
};
using ExportFiles = std::vector<ExportFile>;

/// A plan as recovered from the files of an exporter.
struct ReadBack {
  std::vector<RankRow> rows = {};       // indexed by rank; completed from rank_table.json
  std::vector<int> micro_batches = {};  // of each pipeline; empty if not in the files
  /// Those that the files contain, in the notation of format_value.
  std::map<Setting, std::string> settings = {};
};

/// What the tests of this project have done with exported files.
enum class Evidence : unsigned char {
  described,  // nothing: the files follow what was read in the target's sources
  accepted,   // the target's own objects accepted the configuration
  trained     // the target trained with it
};
std::string_view name_of(Evidence evidence);

struct Exporter {
  std::string_view name, what;             // what: description for --help, with supported versions
  bool is_trainer = false;                 // otherwise a launcher, which takes any rank order
  std::optional<Target> target = {};       // of a trainer, if plans can be made for it
  std::span<const RankOrder> orders = {};  // supported by the trainer; the first is its default
  Evidence evidence = Evidence::described;
  std::string_view version = {};                   // that was tried, or whose sources were read
  std::span<const ExportedSetting> settings = {};  // of a trainer with `target`: all (is_complete)
  /// Throws Error for a plan that the target cannot express, beyond check_runnable. May be null.
  void (*check)(const ExportBundle&) = nullptr;
  ExportFiles (*files)(const ExportBundle&) = nullptr;
  /// Parses `files`, which include rank_table.json, by the rules of the target. Takes from `bundle` only what
  /// the files do not contain: device names, the job's model, and the address of rank 0.
  ReadBack (*read_back)(const ExportFiles& files, const ExportBundle& bundle) = nullptr;
  std::string_view usage = {};  // how to use the files, for the README.md of the folder
  /// Caveats of running this plan on the target.
  std::vector<std::string> (*notes)(const ExportBundle&) = nullptr;
};

std::span<const Exporter> exporters();
/// Throws Error for an unknown name, with a suggestion.
const Exporter& find_exporter(std::string_view name);

/// The rank order for all of `targets`: `requested` if given, else the default of the trainer among them,
/// else stage_major. Throws Error if the trainer does not support `requested`, and for two trainers.
RankOrder choose_rank_order(std::span<const Exporter* const> targets,
                            const std::optional<RankOrder>& requested);

/// The bundle with the settings with which the trainer among `targets`, if any, runs the plan. Throws
/// NotRunnable.
ExportBundle run_on_trainer(ExportBundle bundle, std::span<const Exporter* const> targets);

/// Throws Error if a target cannot express the plan of the bundle, a result of run_on_trainer.
void check_expressible(const ExportBundle& bundle, std::span<const Exporter* const> targets);

/// All files for `targets`: their own, rank_table.json and README.md. The bundle is a result of
/// run_on_trainer. Throws Error if a target cannot express the plan, and BrokenInvariant if the files, when
/// parsed, differ from the plan.
ExportFiles export_files(const ExportBundle& bundle, std::span<const Exporter* const> targets);

/// One note if, by the estimate in the plan file, devices exceed their memory: how many, and the one with the
/// largest deficit.
std::vector<std::string> memory_notes(const ExportBundle& bundle);

/// All other caveats of running the plan on `targets`.
std::vector<std::string> export_notes(const ExportBundle& bundle, std::span<const Exporter* const> targets);

/// The text of the file called `name`, which must be in `files`.
const std::string& file_text(const ExportFiles& files, std::string_view name);

}  // namespace dtfm::exporter
