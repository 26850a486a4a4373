// torchrun with static rendezvous: one agent per GPU, or one per machine.
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "planner/export/export_requirements.hpp"
#include "planner/export/script_template.hpp"
#include "planner/export/torchrun_script.hpp"
#include "planner/export/trainer_rank_mapping.hpp"

namespace dtfm::exporter {

extern const std::string_view export_torchrun_host_sh;  // templates/torchrun-host.sh

namespace torchrun {
namespace {

constexpr std::string_view target_name = "torchrun";
constexpr const char* file_name = "torchrun.sh";

/// An agent gives its processes consecutive ranks.
void check(const ExportBundle& bundle) {
  if (bundle.launch.agents == AgentPer::gpu) return;
  for (const auto& [address, ranks] : ranks_by_address(bundle))
    if (ranks.back() - ranks.front() + 1 != static_cast<int>(ranks.size()))
      reject(
          target_name,
          fmt::format("ranks of host {} are {}, not consecutive; use --agents gpu, or --to slurm or openmpi",
                      address, fmt::join(ranks, ",")));
}

/// Lines such as `  "0 gc 3 1,2,0"`: agent rank, machine, number of ranks, GPUs in the order of the ranks.
std::string host_agents(const ExportBundle& bundle) {
  std::vector<std::string> lines;
  const std::vector<RankRow> rows = rank_rows(bundle);
  for (std::size_t rank = 0; rank < rows.size();) {
    std::vector<int> gpus;
    const std::size_t first = rank;
    while (rank < rows.size() && rows[rank].node_rank == rows[first].node_rank)
      gpus.push_back(rows[rank++].gpu);
    lines.push_back(fmt::format("  \"{} {} {} {}\"", rows[first].node_rank, rows[first].address, gpus.size(),
                                fmt::join(gpus, ",")));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

ExportFiles files(const ExportBundle& bundle) {
  if (bundle.launch.agents == AgentPer::gpu) return {torchrun_script(bundle)};
  const int nodes = rank_rows(bundle).back().node_rank + 1;
  return {{file_name,
           fill_template(export_torchrun_host_sh, {{"nodes", fmt::format("{}", nodes)},
                                                   {"master", bundle.master()},
                                                   {"port", fmt::format("{}", bundle.launch.port)},
                                                   {"checks", torchrun_checks(file_name)},
                                                   {"agents", host_agents(bundle)}}),
           true}};
}

/// As in torchrun, the ranks of the processes are numbered consecutively in the order of the agents.
std::vector<RankRow> read_host_agents(const std::string& script, std::vector<RankRow> rows) {
  std::size_t rank = 0;
  for (const std::string& line : table_lines(script, "agents=(")) {
    const auto words = split_words(line);
    DTFM_ASSERT(words.size() == 4);
    const std::vector<int> gpus = parse_number_list(words.back(), ',');
    DTFM_ASSERT(static_cast<int>(gpus.size()) == parse_number(words[2]));
    for (std::size_t local = 0; local < gpus.size(); ++local, ++rank) {
      RankRow& row = rows.at(rank);
      row.address = words[1];
      row.gpu = gpus[local];
      row.node_rank = parse_number(words[0]);
      row.local_rank = static_cast<int>(local);
    }
  }
  DTFM_ASSERT(rank == rows.size());
  return rows;
}

ReadBack read_back(const ExportFiles& files, const ExportBundle& bundle) {
  const std::string& script = file_text(files, file_name);
  std::vector<RankRow> rows = read_table_rows(files);
  if (bundle.launch.agents == AgentPer::host) return {.rows = read_host_agents(script, std::move(rows))};
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    rows[rank].node_rank = static_cast<int>(rank);
    rows[rank].local_rank = 0;
  }
  read_torchrun_script(script, rows);
  return {.rows = std::move(rows)};
}

std::vector<std::string> notes(const ExportBundle& bundle) {
  if (bundle.launch.agents == AgentPer::host) return {};
  return {
      "each process sees one GPU, and LOCAL_WORLD_SIZE is 1: features that group the GPUs of a machine, such "
      "as HSDP, see groups of one GPU"};
}

}  // namespace
}  // namespace torchrun

Exporter torchrun_exporter() {
  using namespace torchrun;
  return {
      .name = target_name,
      .what = "torchrun (PyTorch 1.13 or later) with static rendezvous",
      .check = check,
      .files = files,
      .read_back = read_back,
      .usage =
          "On every machine: `./torchrun.sh MACHINE PROGRAM ARGUMENT...`. PROGRAM is that of the trainer, or "
          "your own, which gets\n"
          "its rank in RANK, and finds the layers of the rank in rank_table.json.",
      .notes = notes};
}

}  // namespace dtfm::exporter
