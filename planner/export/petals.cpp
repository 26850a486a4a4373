// Petals: servers that each hold blocks of a model. Clients can be given a list of the servers of a pipeline.
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "planner/export/export_requirements.hpp"
#include "planner/export/script_template.hpp"
#include "planner/export/trainer_rank_mapping.hpp"
#include "core/io/text/json_format.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::exporter {

extern const std::string_view export_petals_sh;  // templates/petals.sh

namespace petals {
namespace {

constexpr std::string_view target_name = "petals";
constexpr const char* script_file = "petals.sh";
constexpr const char* pipelines_file = "petals-pipelines.json";

/// It fine-tunes with frozen blocks, so no plan is made for it, but it has requirements of plans.
constexpr std::array schedules = {Schedule::one_f_one_b};
constexpr std::array orders = {RankOrder::pipeline_major, RankOrder::stage_major};
constexpr TargetTraits requirements = {
    .name = target_name, .schedules = schedules, .orders = orders, .uniform_pipelines = false};

/// What distinguishes the model from all that Petals serves; empty if nothing does.
std::string_view unserved_part(const Job& job) {
  const auto* model = std::get_if<Transformer>(&job.model);
  if (model == nullptr) return "is a chain of layers";
  if (model->encoder) return "is an encoder";
  if (model->learned_positions) return "has learned positions";
  if (model->qk_norm != QkNorm::none) return "has norms of queries and keys";
  if (model->latent.kv_rank > 0) return "has latent attention";
  if (!model->blocks.empty()) return "has blocks of several kinds";
  return "";
}

void check(const ExportBundle& bundle) {
  if (const std::string_view part = unserved_part(bundle.job); !part.empty())
    reject(target_name,
           fmt::format("the model of job {} {}, but Petals serves only Llama, Falcon, BLOOM and Mixtral of "
                       "Hugging Face; plan one of them with --model config.json, or use --to pytorch",
                       io::quote(bundle.job.name), part));
  check_runnable(requirements, bundle.plan, bundle.job);
  if (const auto stage = find_stage_across_machines(bundle))
    reject(
        target_name,
        fmt::format("the tensor-parallel devices of a stage {} are on several machines, but a server runs on "
                    "one; plan with --tensor 1",
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

/// Each line of the table is a stage: name, address, GPUs and blocks.
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
      "Petals fine-tunes around frozen blocks and does not train them; embedding and head stay with the "
      "client",
      "clients choose servers freely; to use those of one pipeline, named in petals-pipelines.json, pass the "
      "peer IDs in their .id files as allowed_servers"};
}

}  // namespace
}  // namespace petals

Exporter petals_exporter() {
  using namespace petals;
  return {
      .name = target_name,
      .what = "Petals (2.3): one server per stage, with its blocks",
      .is_trainer = true,
      .orders = requirements.orders,
      .version = "Petals 2.3",
      .check = check,
      .files = files,
      .read_back = read_back,
      .usage =
          "1. On one machine: `python -m petals.cli.run_dht --host_maddrs /ip4/0.0.0.0/tcp/31337 "
          "--identity_path dht.id`. It prints\n"
          "   its address, `/ip4/…/tcp/31337/p2p/…`, and must keep running.\n"
          "2. On every machine: `./petals.sh MACHINE MODEL --initial_peers ADDRESS`. MODEL is the name of "
          "the plan's model at\n"
          "   Hugging Face, or a folder with it. No other launcher is needed.\n"
          "3. In your own program: `AutoDistributedModelForCausalLM.from_pretrained(MODEL, "
          "initial_peers=[ADDRESS])` of Petals.",
      .notes = notes};
}

}  // namespace dtfm::exporter
