// Slurm's arbitrary distribution: a file with the machine of each task.
#include <sstream>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/export/closed_form.hpp"
#include "planner/export/rank_env.hpp"
#include "planner/export/template_text.hpp"

namespace dtfm::exporter {

extern const std::string_view export_slurm_sh;  // templates/slurm.sh

namespace {

constexpr const char* hosts_file = "slurm-hosts";

ExportFiles files(const Handover& handover) {
  std::string hosts;
  for (int rank = 0; rank < handover.world(); ++rank) hosts += handover.place(rank).address + "\n";
  return {{"slurm.sh", filled_in(export_slurm_sh, {{"world", fmt::format("{}", handover.world())}}), true},
          {hosts_file, hosts},
          rank_env_file(handover)};
}

/// Task i is on line i.
ReadBack read_back(const ExportFiles& files, const Handover&) {
  std::vector<RankRow> rows = table_rows(files);
  read_rank_env(files, rows);
  std::istringstream lines(text_of(files, hosts_file));
  std::size_t rank = 0;
  for (std::string line; std::getline(lines, line); ++rank) rows.at(rank).address = line;
  DTFM_ASSERT(rank == rows.size());
  return {std::move(rows), {}};
}

std::vector<std::string> notes(const Handover&) {
  return {
      "the machines' addresses must be Slurm's names for its nodes, and the allocation must have all of "
      "them"};
}

}  // namespace

Exporter slurm_exporter() {
  return {"slurm",
          "Slurm (22.05 or later): arbitrary distribution",
          false,
          {},
          [](const Handover&) {},
          files,
          read_back,
          "In an allocation (salloc, sbatch) of the machines: `./slurm.sh PROGRAM ARGUMENT...`.",
          notes};
}

}  // namespace dtfm::exporter
