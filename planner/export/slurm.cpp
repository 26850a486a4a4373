// Slurm with arbitrary distribution: a file with the machine of each task.
#include <sstream>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "planner/export/rank_env.hpp"
#include "planner/export/script_template.hpp"
#include "planner/export/trainer_rank_mapping.hpp"

namespace dtfm::exporter {

extern const std::string_view export_slurm_sh;  // templates/slurm.sh

namespace slurm {
namespace {

constexpr const char* hosts_file = "slurm-hosts";

ExportFiles files(const ExportBundle& bundle) {
  std::string hosts;
  for (int rank = 0; rank < bundle.world_size(); ++rank) hosts += bundle.location(rank).address + "\n";
  return {
      {"slurm.sh", fill_template(export_slurm_sh, {{"world", fmt::format("{}", bundle.world_size())}}), true},
      {hosts_file, hosts},
      rank_env_file(bundle)};
}

/// Line i of the hosts file is the machine of task i.
ReadBack read_back(const ExportFiles& files, const ExportBundle&) {
  std::vector<RankRow> rows = read_table_rows(files);
  read_rank_env(files, rows);
  std::istringstream lines(file_text(files, hosts_file));
  std::size_t rank = 0;
  for (std::string line; std::getline(lines, line); ++rank) rows.at(rank).address = line;
  DTFM_ASSERT(rank == rows.size());
  return {std::move(rows), {}};
}

std::vector<std::string> notes(const ExportBundle&) {
  return {"the machines' addresses must be Slurm's node names, and the allocation must include all of them"};
}

}  // namespace
}  // namespace slurm

Exporter slurm_exporter() {
  using namespace slurm;
  return {.name = "slurm",
          .what = "Slurm (22.05 or later): arbitrary distribution",
          .files = files,
          .read_back = read_back,
          .usage =
              "In an allocation (salloc, sbatch) of the machines: `./slurm.sh PROGRAM ARGUMENT...`, such as "
              "`./slurm.sh python3\ntrain.py`.",
          .notes = notes};
}

}  // namespace dtfm::exporter
