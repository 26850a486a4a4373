// DT-FM's own runner (dist_runner.py), which gets the number of layers of each process as an argument.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "planner/export/export_requirements.hpp"
#include "planner/export/script_template.hpp"
#include "planner/export/trainer_rank_mapping.hpp"

namespace dtfm::exporter {

extern const std::string_view export_dtfm_sh;  // templates/dtfm.sh

namespace runner {
namespace {

constexpr std::string_view target_name = "dtfm";
constexpr const char* script_file = "dtfm.sh";
constexpr const char* map_file = "rank_map.sh";

constexpr ExportedSettings exported = {{
    {Setting::global_batch, SettingForm::file,
     "`--batch-size` × `--gradient-accumulate-step` × `--data-group-size`"},
    {Setting::micro_batch, SettingForm::file, "`--micro-batch-size`"},
    {Setting::precision, SettingForm::note, "`--fp16` for fp16; all others train in fp32"},
    {Setting::matmul, SettingForm::built_in, "products are in the precision of the training"},
    {Setting::optimizer, SettingForm::built_in,
     "SGD with its state on the host (`--use-offload`, the default)"},
    {Setting::pipeline, SettingForm::file, "`--pipeline-group-size`"},
    {Setting::data, SettingForm::file, "`--data-group-size`"},
    {Setting::tensor, SettingForm::built_in, "1"},
    {Setting::context, SettingForm::built_in, "1"},
    {Setting::context_exchange, SettingForm::built_in, "no context parallelism"},
    {Setting::stage_data, SettingForm::built_in, "1"},
    {Setting::expert, SettingForm::built_in, "1: experts are divided like other layers"},
    {Setting::expert_dispatch, SettingForm::built_in, "no expert parallelism"},
    {Setting::expert_imbalance, SettingForm::built_in, "no expert parallelism"},
    {Setting::schedule, SettingForm::built_in, "gpipe"},
    {Setting::chunks, SettingForm::built_in, "none"},
    {Setting::flush, SettingForm::layout, "`--gradient-accumulate-step` rounds"},
    {Setting::gradient_sync, SettingForm::layout, "`--dp-mode`"},
    {Setting::optimizer_sharding, SettingForm::built_in, "none"},
    {Setting::overlap, SettingForm::built_in, "after the last backward pass"},
    {Setting::tied_embedding_sync, SettingForm::built_in, "never"},
    {Setting::iteration_barrier, SettingForm::built_in, "a barrier of all processes in every iteration"},
    {Setting::messages, SettingForm::built_in, "receives are posted ahead"},
    {Setting::sequence_parallel, SettingForm::built_in, "no effect without tensor parallelism"},
    {Setting::scatter_gather, SettingForm::built_in, "no effect without tensor parallelism"},
    {Setting::uniform_pipelines, SettingForm::built_in, "always"},
    {Setting::recompute, SettingForm::built_in, "every block"},
    {Setting::recompute_layers, SettingForm::built_in, "all"},
    {Setting::activations, SettingForm::built_in, "no compression"},
    {Setting::gradients, SettingForm::built_in, "no compression"},
    {Setting::throughput, SettingForm::built_in, "no compression"},
    {Setting::bandwidth_threshold, SettingForm::built_in, "no compression"},
}};
static_assert(is_complete(exported));

/// "sharded_ps", "central_ps", or a ring.
std::string dp_mode(GradientSync gradient_sync) {
  if (traits(gradient_sync).roles == MemberRoles::ring) return "allreduce";
  std::string name(name_of(gradient_sync));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// Bash arrays in the format of DT-FM's scripts: the number of GPUs of each machine, and the rank of each GPU
/// in that order. Empty if the GPUs of a machine are not numbered 0 … n − 1.
std::string rank_map(const ExportBundle& bundle) {
  std::vector<int> counts, ranks;
  for (const auto& [address, machine_ranks] : ranks_by_address(bundle)) {
    std::vector<int> by_gpu(machine_ranks.size(), -1);
    for (const int rank : machine_ranks) {
      const int gpu = bundle.location(rank).gpu;
      if (gpu >= static_cast<int>(by_gpu.size())) return "";
      by_gpu[at(gpu)] = rank;
    }
    counts.push_back(static_cast<int>(by_gpu.size()));
    ranks.insert(ranks.end(), by_gpu.begin(), by_gpu.end());
  }
  return fmt::format(
      "# shellcheck shell=bash disable=SC2034\n# For DT-FM's own scripts: machines in the order of their "
      "addresses.\n"
      "nodes_per_node=({})\nrank_map=({})\n",
      fmt::join(counts, " "), fmt::join(ranks, " "));
}

ExportFiles files(const ExportBundle& bundle) {
  std::vector<std::string> ranks;
  for (int rank = 0; rank < bundle.world_size(); ++rank) {
    const auto [first, last] = bundle.assignments[at(rank)].layers.front();
    ranks.push_back(fmt::format("  \"{} {} {} {}\"", rank, bundle.location(rank).address,
                                bundle.location(rank).gpu, last - first));
  }
  const Training& training = bundle.job.training;
  ExportFiles files = {
      {script_file,
       fill_template(
           export_dtfm_sh,
           {{"ranks", fmt::format("{}", fmt::join(ranks, "\n"))},
            {"master", bundle.master()},
            {"port", fmt::format("{}", bundle.launch.port)},
            {"world", fmt::format("{}", bundle.world_size())},
            {"stages", fmt::format("{}", stage_count(bundle))},
            {"replicas", fmt::format("{}", replica_count(bundle))},
            {"batch", fmt::format("{}", micro_batches_per_flush(bundle) * bundle.job.execution.micro_batch)},
            {"micro_batch", fmt::format("{}", bundle.job.execution.micro_batch)},
            {"rounds",
             fmt::format("{}", micro_batches_per_pipeline(bundle) / micro_batches_per_flush(bundle))},
            {"dp_mode", dp_mode(bundle.job.execution.gradient_sync)},
            {"precision", training.precision == Precision::fp16 ? " --fp16" : ""}}),
       true}};
  if (std::string map = rank_map(bundle); !map.empty()) files.push_back({map_file, std::move(map)});
  return files;
}

/// Every process derives its stage and pipeline as rank % P and rank ÷ P, and gets its layers, address and
/// GPU as arguments.
ReadBack read_back(const ExportFiles& files, const ExportBundle& bundle) {
  const std::string& script = file_text(files, script_file);
  const auto flag = [&](const char* name) { return number_after(script, fmt::format(" {} ", name)); };
  const int stages = flag("--pipeline-group-size"), replicas = flag("--data-group-size");
  const auto lines = table_lines(script, "ranks=(");
  DTFM_ASSERT(static_cast<int>(lines.size()) == stages * replicas &&
              flag("--world-size") == stages * replicas);
  std::vector<int> layers;
  for (int stage = 0; stage < stages; ++stage)
    layers.push_back(parse_number(split_words(lines[at(stage)]).back()));
  std::vector<RankRow> rows = map_ranks(
      files, {.order = RankOrder::pipeline_major, .data = replicas, .pipeline = stages, .layers = layers});
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    const auto words = split_words(lines[rank]);
    DTFM_ASSERT(words.size() == 4 && parse_number(words[0]) == static_cast<int>(rank));
    DTFM_ASSERT(parse_number(words[3]) == layers[rank % at(stages)]);
    rows[rank].address = words[1];
    rows[rank].gpu = parse_number(words[2]);
  }
  const int replica_batch = flag("--batch-size") * flag("--gradient-accumulate-step"),
            micro_batch = flag("--micro-batch-size");
  DTFM_ASSERT(bundle.master() == rows.front().address);
  DTFM_ASSERT(script.find(" --dp-mode " + dp_mode(bundle.job.execution.gradient_sync)) != std::string::npos);
  return {std::move(rows),
          std::vector<int>(at(replicas), replica_batch / micro_batch),
          {{Setting::global_batch, fmt::format("{}", replicas * replica_batch)},
           {Setting::micro_batch, fmt::format("{}", micro_batch)},
           {Setting::pipeline, fmt::format("{}", stages)},
           {Setting::data, fmt::format("{}", replicas)}}};
}

std::vector<std::string> notes(const ExportBundle& bundle) {
  std::vector<std::string> notes = {
      "the published code fails on import: delete the lines of pipeline_parallel/dist_pp_utils.py that "
      "import dist_gpipe_pipeline_async_offload and dist_1f1b_pipeline_async, which do not exist",
      "it measures throughput: every replica trains on the same data"};
  if (const auto* model = std::get_if<Transformer>(&bundle.job.model);
      model && (model->gated || model->norm != Norm::layer || !model->learned_positions ||
                model->kv_heads > 0 || model->head_dim > 0 || model->qk_norm != QkNorm::none))
    notes.emplace_back("its modules are those of GPT: change modules/gpt_modules.py to the plan's model");
  return notes;
}

}  // namespace
}  // namespace runner

Exporter dtfm_exporter() {
  using namespace runner;
  return {.name = target_name,
          .what = "DT-FM's dist_runner.py (DS3Lab/DT-FM at cda948f), with a start script",
          .is_trainer = true,
          .target = Target::dtfm,
          .orders = traits(Target::dtfm).orders,
          .version = "DS3Lab/DT-FM at cda948f",
          .settings = exported,
          .files = files,
          .read_back = read_back,
          .usage =
              "On every machine, in the folder of dist_runner.py: `./dtfm.sh MACHINE ARGUMENT...`, with "
              "its arguments for model,\n"
              "width and data. No other launcher is needed.",
          .notes = notes};
}

}  // namespace dtfm::exporter
