// The table of what a plan can be handed over to, and the one way in which it is: what cannot be expressed is
// refused before anything is written, and what was written is read again and compared with the plan.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/export/export_bundle.hpp"
#include "planner/export/rank_table.hpp"

namespace dtfm::exporter {

struct ExportFile {
  std::string name, text;
  bool is_executable = false;
};
using ExportFiles = std::vector<ExportFile>;

/// What files of an exporter say of a plan.
struct ReadBack {
  std::vector<RankRow> rows;       // by rank; what its own files do not say is from rank_table.json
  std::vector<int> micro_batches;  // of each pipeline; empty: they do not say
};

struct Exporter {
  std::string_view name, what;    // what: for --help, with the versions that it was written for
  bool is_trainer = false;        // else a launcher, which takes any order
  std::vector<RankOrder> orders;  // that a trainer has; the first is its own
  /// Throws Error (expressible.hpp) for a plan that it cannot express.
  void (*check)(const ExportBundle&);
  ExportFiles (*files)(const ExportBundle&);
  /// From `files`, rank_table.json among them, by the target's own rules; of `handover` what these do not
  /// say: names of devices, the job's model, where rank 0 listens.
  ReadBack (*read_back)(const ExportFiles& files, const ExportBundle& bundle);
  std::string_view usage;  // how its files are used, for the folder's README.md
  /// What a user should know of this plan there.
  std::vector<std::string> (*notes)(const ExportBundle&);
};

std::span<const Exporter> exporters();
/// Throws Error for an unknown name, with the one that may have been meant.
const Exporter& find_exporter(std::string_view name);

/// The order of ranks that all of `targets` have: `asked`, if it is given, else that of the trainer among
/// them, else stage_major. Throws Error where there is none, and for two trainers.
RankOrder choose_rank_order(std::span<const Exporter* const> targets, const std::optional<RankOrder>& requested);

/// All files for `targets`: theirs, rank_table.json and a README.md. Throws Error for what one of them cannot
/// express, BrokenInvariant where a file does not say what the plan says.
ExportFiles export_files(const ExportBundle& bundle, std::span<const Exporter* const> targets);

/// That the plan does not fit, where its file says so: how many devices lack memory, and the one that lacks
/// most.
std::vector<std::string> memory_notes(const ExportBundle& bundle);

/// What a user should know of the plan at `targets` beside that.
std::vector<std::string> export_notes(const ExportBundle& bundle, std::span<const Exporter* const> targets);

/// The text of a file that is there.
const std::string& file_text(const ExportFiles& files, std::string_view name);

}  // namespace dtfm::exporter
