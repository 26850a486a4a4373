// DT-FM's own runner (dist_runner.py): each process is told its layers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/export/closed_form.hpp"
#include "planner/export/expressible.hpp"
#include "planner/export/template_text.hpp"

namespace dtfm::exporter {

extern const std::string_view export_dtfm_sh;  // templates/dtfm.sh

namespace {

constexpr std::string_view self = "dtfm";
constexpr const char* script_file = "dtfm.sh";
constexpr const char* map_file = "rank_map.sh";

void check(const Handover& handover) {
  require_transformer(handover, self);
  if (stages_of(handover) == 1)
    refuse(self, "one-stage pipelines are not runnable; plan with --pipeline 2 or more");
  require_no_tensor(handover, self);
  require_no_chunks(handover, self);
  require_alike(handover, self);
  require_layers_everywhere(handover, self);
  require_equal_rounds(handover, self);
}

std::string dp_mode(const std::string& gradient_sync) {
  if (gradient_sync == "sharded-ps") return "sharded_ps";
  if (gradient_sync == "central-ps") return "central_ps";
  return "allreduce";
}

/// GPUs of each machine, and the rank of each in that order, as the scripts of DT-FM have it; nothing where a
/// machine's GPUs are not 0 … n − 1 without a gap.
std::string rank_map(const Handover& handover) {
  std::vector<int> counts, ranks;
  for (const auto& [address, of_machine] : ranks_by_address(handover)) {
    std::vector<int> by_gpu(of_machine.size(), -1);
    for (const int rank : of_machine) {
      const int gpu = handover.place(rank).gpu;
      if (gpu >= static_cast<int>(by_gpu.size())) return "";
      by_gpu[at(gpu)] = rank;
    }
    counts.push_back(static_cast<int>(by_gpu.size()));
    ranks.insert(ranks.end(), by_gpu.begin(), by_gpu.end());
  }
  return fmt::format(
      "# shellcheck shell=bash disable=SC2034\n# For DT-FM's own scripts: machines in the order of their "
      "names.\n"
      "nodes_per_node=({})\nrank_map=({})\n",
      fmt::join(counts, " "), fmt::join(ranks, " "));
}

ExportFiles files(const Handover& handover) {
  std::vector<std::string> ranks;
  for (int rank = 0; rank < handover.world(); ++rank) {
    const auto [first, last] = handover.seats[at(rank)].layers.front();
    ranks.push_back(fmt::format("  \"{} {} {} {}\"", rank, handover.place(rank).address,
                                handover.place(rank).gpu, last - first));
  }
  const Training& training = handover.job.training;
  ExportFiles files = {
      {script_file,
       filled_in(export_dtfm_sh,
                 {{"ranks", fmt::format("{}", fmt::join(ranks, "\n"))},
                  {"master", handover.master()},
                  {"port", fmt::format("{}", handover.launch.port)},
                  {"world", fmt::format("{}", handover.world())},
                  {"stages", fmt::format("{}", stages_of(handover))},
                  {"replicas", fmt::format("{}", replicas_of(handover))},
                  {"batch", fmt::format("{}", round_of(handover) * training.micro_batch)},
                  {"micro_batch", fmt::format("{}", training.micro_batch)},
                  {"rounds", fmt::format("{}", micro_batches_of(handover) / round_of(handover))},
                  {"dp_mode", dp_mode(handover.job.parallelism.gradient_sync)},
                  {"precision", training.precision == "fp16" ? " --fp16" : ""}}),
       true}};
  if (std::string map = rank_map(handover); !map.empty()) files.push_back({map_file, std::move(map)});
  return files;
}

/// Every process finds out who it is by rank % P and rank ÷ P, and is told its layers, address and GPU.
ReadBack read_back(const ExportFiles& files, const Handover& handover) {
  const std::string& script = text_of(files, script_file);
  const auto flag = [&](const char* name) { return number_behind(script, fmt::format(" {} ", name)); };
  const int stages = flag("--pipeline-group-size"), replicas = flag("--data-group-size");
  const auto lines = table_lines(script, "ranks=(");
  DTFM_ASSERT(static_cast<int>(lines.size()) == stages * replicas &&
              flag("--world-size") == stages * replicas);
  std::vector<int> layers;
  for (int stage = 0; stage < stages; ++stage)
    layers.push_back(number_in_word(words_between_blanks(lines[at(stage)]).back()));
  std::vector<RankRow> rows = rows_by_rule(files, {RankOrder::pipeline_major, 1, replicas, stages, layers});
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    const auto words = words_between_blanks(lines[rank]);
    DTFM_ASSERT(words.size() == 4 && number_in_word(words[0]) == static_cast<int>(rank));
    DTFM_ASSERT(number_in_word(words[3]) == layers[rank % at(stages)]);
    rows[rank].address = words[1];
    rows[rank].gpu = number_in_word(words[2]);
  }
  const int micro_batches =
      flag("--batch-size") / flag("--micro-batch-size") * flag("--gradient-accumulate-step");
  DTFM_ASSERT(handover.master() == rows.front().address);
  return {std::move(rows), std::vector<int>(at(replicas), micro_batches)};
}

std::vector<std::string> notes(const Handover& handover) {
  std::vector<std::string> notes = {
      "as published it does not import: delete the lines of pipeline_parallel/dist_pp_utils.py that import "
      "dist_gpipe_pipeline_async_offload and dist_1f1b_pipeline_async, files that are not there",
      "it measures throughput: every replica trains on the same data"};
  if (const std::string& planned = handover.job.parallelism.schedule; planned != "gpipe")
    notes.push_back(fmt::format(
        "it runs schedule gpipe, and the plan's times are those of {}: plan with schedule gpipe", planned));
  if (dp_mode(handover.job.parallelism.gradient_sync) == "allreduce")
    notes.push_back(
        fmt::format("--dp-mode allreduce leaves to NCCL how gradients are exchanged; the plan counts on {}",
                    handover.job.parallelism.gradient_sync));
  return notes;
}

}  // namespace

Exporter dtfm_exporter() {
  return {self,
          "DT-FM's dist_runner.py (DS3Lab/DT-FM at cda948f), with a script that starts it",
          true,
          {RankOrder::pipeline_major},
          check,
          files,
          read_back,
          "On every machine: `./dtfm.sh MACHINE ARGUMENT...`, in the folder of dist_runner.py, with the "
          "arguments of the\n"
          "model, its width and its data. No other launcher is needed.",
          notes};
}

}  // namespace dtfm::exporter
