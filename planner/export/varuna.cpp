// Varuna: a map of stages to ranks, for stages with equal numbers of layers.
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "planner/export/export_requirements.hpp"
#include "planner/export/script_template.hpp"
#include "planner/export/trainer_rank_mapping.hpp"

namespace dtfm::exporter {
namespace varuna {
namespace {

constexpr std::string_view target_name = "varuna";
constexpr const char* file_name = "varuna.sh";

/// The ranks of each stage in the order of pipelines, such as `0,3;1,4;2,5;`. The last semicolon is required
/// (varuna/utils.py).
std::string stage_map(const ExportBundle& bundle) {
  std::vector<std::vector<int>> ranks(at(stage_count(bundle)));
  for (int rank = 0; rank < bundle.world_size(); ++rank)
    ranks[at(bundle.assignments[at(rank)].stage)].push_back(rank);
  std::string map;
  for (const auto& stage : ranks) map += fmt::format("{};", fmt::join(stage, ","));
  return map;
}

ExportFiles files(const ExportBundle& bundle) {
  const Training& training = bundle.job.training;
  return {
      {file_name,
       fmt::format("# shellcheck shell=bash disable=SC2034\n# For Varuna (microsoft/varuna at a2145cc). "
                   "Source this file; ranks are {}.\nVARUNA_ARGS=(\n  --stage_to_rank_map "
                   "\"{}\"\n)\nBATCH_SIZE={} # global, for Varuna(batch_size=...)\nCHUNK_SIZE={} # "
                   "micro-batch, for Varuna(chunk_size=...)\nCUT_POINTS={} # one after every {} layers\n",
                   rank_order_name(bundle.order), stage_map(bundle), training.global_batch,
                   bundle.job.execution.micro_batch, stage_count(bundle) - 1, layer_counts(bundle).front())}};
}

/// The pipeline of a rank is its position in the list of its stage.
ReadBack read_back(const ExportFiles& files, const ExportBundle& bundle) {
  const std::string& text = file_text(files, file_name);
  const std::string line = table_lines(text, "VARUNA_ARGS=(").at(0);
  std::string map = split_words(line).at(1);
  map = map.substr(map.find_first_not_of('"'));
  const int layers = layer_count(bundle.job.model), stages = number_after(text, "\nCUT_POINTS=") + 1;
  std::vector<RankRow> rows = read_table_rows(files);
  std::set<int> seen;
  int stage = 0, replica = 0;
  std::string word;
  for (const char c : map) {
    if (c != ',' && c != ';') {
      word += c;
      continue;
    }
    const int layers_per_stage = layers / stages, rank = parse_number(word);
    DTFM_ASSERT(seen.insert(rank).second);
    rows.at(at(rank)).assignment = {
        0, replica, stage, 0, {{stage * layers_per_stage, (stage + 1) * layers_per_stage}}};
    word.clear();
    ++replica;
    if (c == ';') {
      ++stage;
      if (stage < stages) replica = 0;
    }
  }
  DTFM_ASSERT(stage == stages && word.empty() && seen.size() == rows.size());
  const int micro_batches =
      number_after(text, "\nBATCH_SIZE=") / number_after(text, "\nCHUNK_SIZE=") / replica;
  return {std::move(rows), std::vector<int>(at(replica), micro_batches)};
}

std::vector<std::string> notes(const ExportBundle&) {
  return {"do not use Varuna's launcher, which makes its own map: use one that sets RANK and WORLD_SIZE"};
}

}  // namespace
}  // namespace varuna

Exporter varuna_exporter() {
  using namespace varuna;
  return {.name = target_name,
          .what = "Varuna (at a2145cc): map of stages to ranks, for plans with equal stages",
          .is_trainer = true,
          .target = Target::varuna,
          .orders = traits(Target::varuna).orders,
          .files = files,
          .read_back = read_back,
          .usage =
              "Run `source varuna.sh`; the program gets `\"${VARUNA_ARGS[@]}\"`, and passes BATCH_SIZE and "
              "CHUNK_SIZE on to Varuna().",
          .notes = notes};
}

}  // namespace dtfm::exporter
