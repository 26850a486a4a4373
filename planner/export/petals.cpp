// Petals: servers with blocks of a model. Which pipeline a server belongs to is a list that clients may have.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/export/trainer_rank_mapping.hpp"
#include "planner/export/export_requirements.hpp"
#include "planner/export/script_template.hpp"
#include "planner/io/text/json_format.hpp"

namespace dtfm::exporter {

extern const std::string_view export_petals_sh;  // templates/petals.sh

namespace {

constexpr std::string_view target_name = "petals";
constexpr const char* script_file = "petals.sh";
constexpr const char* pipelines_file = "petals-pipelines.json";

void check(const ExportBundle& bundle) {
  require_transformer(bundle, target_name);
  require_nonempty_stages(bundle, target_name);
  require_no_chunks(bundle, target_name);
  if (const auto stage = find_stage_across_machines(bundle))
    reject(target_name, fmt::format(
                     "the tensor-parallel devices of a stage {} are on several machines; a server is on one; "
                     "plan with --tensor 1",
                     *stage));
}

std::string server_name(std::size_t pipeline, std::size_t stage) {
  return fmt::format("pipeline-{}-stage-{}", pipeline, stage);
}

ExportFiles files(const ExportBundle& bundle) {
  std::vector<std::string> servers;
  nlohmann::ordered_json pipelines = nlohmann::ordered_json::array();
  for (std::size_t p = 0; p < bundle.plan.pipelines.size(); ++p) {
    nlohmann::ordered_json names = nlohmann::ordered_json::array();
    const auto& stages = bundle.plan.pipelines[p].stages;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      std::vector<int> gpus;
      for (const int device : stages[s].devices) gpus.push_back(bundle.locations[at(device)].gpu);
      servers.push_back(fmt::format("  \"{} {} {} {}:{}\"", server_name(p, s),
                                    bundle.locations[at(stages[s].devices.front())].address,
                                    fmt::join(gpus, ","), stages[s].layers.first, stages[s].layers.second));
      names.push_back(server_name(p, s));
    }
    pipelines.push_back(names);
  }
  return {{script_file,
           fill_template(export_petals_sh, {{"servers", fmt::format("{}", fmt::join(servers, "\n"))}}), true},
          {pipelines_file, io::format_json(pipelines)}};
}

/// A line is a stage: where it is and which blocks it has. The rows of the ranks say the same.
ReadBack read_back(const ExportFiles& files, const ExportBundle&) {
  std::vector<RankRow> rows = read_table_rows(files);
  std::size_t seen = 0;
  for (const std::string& line : table_lines(file_text(files, script_file), "servers=(")) {
    const auto words = split_words(line);
    DTFM_ASSERT(words.size() == 4);
    const std::string name = words[0];
    const auto blocks = parse_number_list(words[3], ':');
    const auto gpus = parse_number_list(words[2], ',');
    for (RankRow& row : rows) {
      if (server_name(at(row.assignment.pipeline), at(row.assignment.stage)) != name) continue;
      ++seen;
      row.address = words[1];
      row.gpu = gpus.at(at(row.assignment.shard));
      row.assignment.layers = {{blocks.at(0), blocks.at(1)}};
    }
  }
  DTFM_ASSERT(seen == rows.size());
  return {std::move(rows), {}};
}

std::vector<std::string> notes(const ExportBundle&) {
  return {
      "it fine-tunes what is around frozen blocks, and does not train them; embedding and head are at the "
      "client",
      "clients choose servers as they like; petals-pipelines.json names those of a pipeline: give the peer "
      "IDs of "
      "their .id files as allowed_servers"};
}

}  // namespace

Exporter petals_exporter() {
  return {
      target_name,      "Petals (2.3): a server for each stage, with its blocks",
      true,      {RankOrder::pipeline_major, RankOrder::stage_major},
      check,     files,
      read_back, "On every machine: `./petals.sh MACHINE MODEL ARGUMENT...`. No other launcher is needed.",
      notes};
}

}  // namespace dtfm::exporter
