// FlashFlex (HexiScale), which supports pipelines that differ in depth, layer split, tensor degree and
// micro-batches.
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "planner/export/export_requirements.hpp"
#include "planner/export/script_template.hpp"
#include "planner/export/trainer_rank_mapping.hpp"

namespace dtfm::exporter {
namespace flashflex {
namespace {

constexpr std::string_view target_name = "flashflex";
constexpr const char* json_file = "flashflex.json";
constexpr const char* script_file = "flashflex.sh";

/// A JSON value for each stage of each pipeline, such as `[[1,1,1],[1,1,1]]`.
template <class Number>
std::string by_stage(const Plan& plan, const Number& number) {
  nlohmann::json lists = nlohmann::json::array();
  for (const Pipeline& pipeline : plan.pipelines) {
    nlohmann::json list = nlohmann::json::array();
    for (const Stage& stage : pipeline.stages) list.push_back(number(stage));
    lists.push_back(list);
  }
  return lists.dump();
}

/// Index of each machine, in the order of their addresses.
std::map<std::string, int> machine_numbers(const ExportBundle& bundle) {
  std::map<std::string, int> numbers;
  for (const auto& [address, ranks] : ranks_by_address(bundle))
    numbers.emplace(address, static_cast<int>(numbers.size()));
  return numbers;
}

std::string config(const ExportBundle& bundle) {
  const auto numbers = machine_numbers(bundle);
  const Plan& plan = bundle.plan;
  const std::string degrees = by_stage(plan, [](const Stage& stage) { return stage.devices.size(); });
  const std::string layers =
      by_stage(plan, [](const Stage& stage) { return stage.layers.second - stage.layers.first; });
  const std::string machines = by_stage(plan, [&](const Stage& stage) {
    std::vector<int> list;
    for (const int device : stage.devices) list.push_back(numbers.at(bundle.locations[at(device)].address));
    return list;
  });
  return fmt::format(R"({{"hetero_configs": {}, "layer_partitions": {}, "devices_id": {}}})"
                     "\n",
                     degrees, layers, machines);
}

ExportFiles files(const ExportBundle& bundle) {
  std::vector<int> batches, chunks;
  for (const Pipeline& pipeline : bundle.plan.pipelines) {
    batches.push_back(pipeline.micro_batches * bundle.job.execution.micro_batch);
    chunks.push_back(pipeline.micro_batches);
  }
  const std::string script = fmt::format(
      "# shellcheck shell=bash disable=SC2034\n"
      "# Arguments of FlashFlex (Relaxed-System-Lab/FlashFlex at 5ee1726). Source this file; ranks are "
      "pipeline-major.\n"
      "FLASHFLEX_ARGS=(\n"
      "  --all_hetero_configs_path \"$(cd \"$(dirname \"${{BASH_SOURCE[0]}}\")\" && pwd)/{}\"\n"
      "  --global_bsz_size {}\n"
      "  --chunks {}\n"
      "  --total-layer-num {}\n)\n",
      json_file, fmt::join(batches, " "), fmt::join(chunks, " "), layer_count(bundle.job.model));
  return {{json_file, config(bundle)}, {script_file, script}};
}

/// FlashFlex numbers ranks by pipeline, then stage, then shard (gen_hetero_groups.py).
ReadBack read_back(const ExportFiles& files, const ExportBundle& bundle) {
  const auto json = nlohmann::json::parse(file_text(files, json_file));
  const auto degrees = json.at("hetero_configs").get<std::vector<std::vector<int>>>();
  const auto layers = json.at("layer_partitions").get<std::vector<std::vector<int>>>();
  const auto machines = json.at("devices_id").get<std::vector<std::vector<std::vector<int>>>>();
  const std::string& script = file_text(files, script_file);
  const auto numbers = machine_numbers(bundle);
  std::vector<RankRow> rows = read_table_rows(files);
  std::size_t rank = 0;
  for (std::size_t p = 0; p < degrees.size(); ++p) {
    int first = 0;
    for (std::size_t s = 0; s < degrees[p].size(); ++s) {
      const int last = first + layers.at(p).at(s);
      for (int t = 0; t < degrees[p][s]; ++t, ++rank) {
        rows.at(rank).assignment = {0, static_cast<int>(p), static_cast<int>(s), t, {{first, last}}};
        DTFM_ASSERT(numbers.at(rows[rank].address) == machines.at(p).at(s).at(at(t)));
      }
      first = last;
    }
    DTFM_ASSERT(first == number_after(script, "\n  --total-layer-num "));
  }
  DTFM_ASSERT(rank == rows.size());
  return {std::move(rows), parse_number_list(text_after(script, "\n  --chunks ", "\n"), ' ')};
}

std::vector<std::string> notes(const ExportBundle& bundle) {
  std::vector<std::string> notes = {
      "its own start script numbers GPUs differently: use a launcher that makes one GPU visible to each rank "
      "(--to torchrun, slurm or openmpi)"};
  const auto& model = std::get<Transformer>(bundle.job.model);
  if (model.sequence != 4096)
    notes.push_back(
        fmt::format("its sequence length is hard-coded to 4096 tokens (process_args.py); the plan assumes {}",
                    model.sequence));
  if (!is_llama_like(model)) notes.emplace_back("it trains Llama, but the job's model is not Llama-like");
  return notes;
}

}  // namespace
}  // namespace flashflex

Exporter flashflex_exporter() {
  using namespace flashflex;
  return {.name = target_name,
          .what = "FlashFlex, also called HexiScale (at 5ee1726): supports heterogeneous pipelines",
          .is_trainer = true,
          .target = Target::flashflex,
          .orders = traits(Target::flashflex).orders,
          .files = files,
          .read_back = read_back,
          .usage = "Run `source flashflex.sh`; the program is `llama_train.py \"${FLASHFLEX_ARGS[@]}\"`.",
          .notes = notes};
}

}  // namespace dtfm::exporter
