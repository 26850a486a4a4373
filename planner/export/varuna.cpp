// Varuna: a map of stages to ranks; its cut points are equal.
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/export/closed_form.hpp"
#include "planner/export/expressible.hpp"
#include "planner/export/template_text.hpp"

namespace dtfm::exporter {
namespace {

constexpr std::string_view self = "varuna";
constexpr const char* file_name = "varuna.sh";

void check(const Handover& handover) {
  require_no_tensor(handover, self);
  require_no_chunks(handover, self);
  require_alike(handover, self);
  const std::vector<int> layers = layer_counts(handover);
  for (const int count : layers)
    if (count != layers.front())
      refuse(self, fmt::format("stages have {} layers; Varuna cuts a model into equal stages; plan with a "
                               "--pipeline that divides the {} layers",
                               split_text(handover.plan.pipelines.front()), layer_count(handover.job.model)));
}

/// `0,3;1,4;2,5;`: the ranks of each stage, by pipeline; the last ; is needed (varuna/utils.py).
std::string stage_map(const Handover& handover) {
  std::vector<std::vector<int>> ranks(at(stages_of(handover)));
  for (int rank = 0; rank < handover.world(); ++rank)
    ranks[at(handover.seats[at(rank)].stage)].push_back(rank);
  std::string map;
  for (const auto& stage : ranks) map += fmt::format("{};", fmt::join(stage, ","));
  return map;
}

ExportFiles files(const Handover& handover) {
  const Training& training = handover.job.training;
  return {
      {file_name,
       fmt::format("# shellcheck shell=bash disable=SC2034\n# For Varuna (microsoft/varuna at a2145cc). "
                   "Source this; its ranks are {}.\nVARUNA_ARGS=(\n  --stage_to_rank_map "
                   "\"{}\"\n)\nBATCH_SIZE={} # of all replicas, for Varuna(batch_size=...)\nCHUNK_SIZE={} # "
                   "a micro-batch, for Varuna(chunk_size=...)\nCUT_POINTS={} # one after every {} layers\n",
                   order_name(handover.order), stage_map(handover), training.global_batch,
                   training.micro_batch, stages_of(handover) - 1, layer_counts(handover).front())}};
}

/// The pipeline of a rank is its place in the list of its stage.
ReadBack read_back(const ExportFiles& files, const Handover& handover) {
  const std::string& text = text_of(files, file_name);
  const std::string line = table_lines(text, "VARUNA_ARGS=(").at(0);
  std::string map = words_between_blanks(line).at(1);
  map = map.substr(map.find_first_not_of('"'));
  const int layers = layer_count(handover.job.model), stages = number_behind(text, "\nCUT_POINTS=") + 1;
  std::vector<RankRow> rows = table_rows(files);
  std::set<int> seen;
  int stage = 0, replica = 0;
  std::string word;
  for (const char c : map) {
    if (c != ',' && c != ';') {
      word += c;
      continue;
    }
    const int of_stage = layers / stages, rank = number_in_word(word);
    DTFM_ASSERT(seen.insert(rank).second);
    rows.at(at(rank)).seat = {0, replica, stage, 0, {{stage * of_stage, (stage + 1) * of_stage}}};
    word.clear();
    ++replica;
    if (c == ';') {
      ++stage;
      if (stage < stages) replica = 0;
    }
  }
  DTFM_ASSERT(stage == stages && word.empty() && seen.size() == rows.size());
  const int micro_batches =
      number_behind(text, "\nBATCH_SIZE=") / number_behind(text, "\nCHUNK_SIZE=") / replica;
  return {std::move(rows), std::vector<int>(at(replica), micro_batches)};
}

std::vector<std::string> notes(const Handover& handover) {
  std::vector<std::string> notes = schedule_notes(handover, "1f1b");
  notes.emplace_back(
      "do not use its launcher, which makes a map of its own: start it with one that sets RANK and "
      "WORLD_SIZE");
  return notes;
}

}  // namespace

Exporter varuna_exporter() {
  return {self,
          "Varuna (at a2145cc): its map of stages to ranks, for plans of equal stages",
          true,
          {RankOrder::pipeline_major, RankOrder::stage_major},
          check,
          files,
          read_back,
          "Run `source varuna.sh`; the program gets `\"${VARUNA_ARGS[@]}\"`, and passes BATCH_SIZE and "
          "CHUNK_SIZE on to Varuna().",
          notes};
}

}  // namespace dtfm::exporter
