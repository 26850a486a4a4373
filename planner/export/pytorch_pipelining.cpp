// torch.distributed.pipelining: a program, the plan's stages, and the schedule as PyTorch's CSV.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/kind_table.hpp"
#include "planner/export/export_requirements.hpp"
#include "planner/export/pipeline_files.hpp"
#include "planner/export/schedule_csv.hpp"

namespace dtfm::exporter {
namespace pipelining {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view target_name = "pytorch-pipelining";
constexpr const char* schedule_file = "schedule.csv";

constexpr ExportedSettings exported = {{
    {Setting::global_batch, SettingForm::file, "`micro_batch` × `micro_batches` × `replicas`"},
    {Setting::micro_batch, SettingForm::file, "`micro_batch`"},
    {Setting::precision, SettingForm::file, "`precision`"},
    {Setting::matmul, SettingForm::built_in, "products are in the precision of the training"},
    {Setting::optimizer, SettingForm::file, "`optimizer`, `planned_optimizer`"},
    {Setting::pipeline, SettingForm::layout, "`layers`"},
    {Setting::data, SettingForm::layout, "`replicas`"},
    {Setting::tensor, SettingForm::built_in, "1"},
    {Setting::context, SettingForm::file, "`context`"},
    {Setting::context_exchange, SettingForm::built_in, "ring"},
    {Setting::stage_data, SettingForm::built_in, "1"},
    {Setting::expert, SettingForm::built_in, "1: experts are divided like other layers"},
    {Setting::expert_dispatch, SettingForm::built_in, "no expert parallelism"},
    {Setting::expert_imbalance, SettingForm::built_in, "no expert parallelism"},
    {Setting::schedule, SettingForm::file, "`schedule`, schedule.csv"},
    {Setting::chunks, SettingForm::layout, "`chunks`"},
    {Setting::flush, SettingForm::file, "`flush`"},
    {Setting::gradient_sync, SettingForm::built_in,
     "rings of NCCL (`NCCL_ALGO` in start.sh); hierarchical-ring: `instances`"},
    {Setting::optimizer_sharding, SettingForm::file,
     "`optimizer_sharding`; zero1: `fully_shard` of FSDP2, without resharding after the forward"},
    {Setting::overlap, SettingForm::built_in,
     "one all-reduce per rank after the last backward pass; with zero1 a reduce-scatter per stage"},
    {Setting::tied_embedding_sync, SettingForm::built_in, "if the model ties embeddings"},
    {Setting::iteration_barrier, SettingForm::built_in, "none"},
    {Setting::messages, SettingForm::built_in, "torch"},
    {Setting::sequence_parallel, SettingForm::built_in, "no effect without tensor parallelism"},
    {Setting::scatter_gather, SettingForm::built_in, "no effect without tensor parallelism"},
    {Setting::uniform_pipelines, SettingForm::built_in, "always"},
    {Setting::recompute, SettingForm::file, "`recompute`; as-needed: also `recompute_layers`, by stage"},
    {Setting::recompute_layers, SettingForm::file, "`recompute_layers`"},
    {Setting::activations, SettingForm::built_in, "no compression"},
    {Setting::gradients, SettingForm::built_in, "no compression"},
    {Setting::throughput, SettingForm::built_in, "no compression"},
    {Setting::bandwidth_threshold, SettingForm::built_in, "no compression"},
}};
static_assert(is_complete(exported));

/// PyTorch has classes for these, whose messages differ from those of a CSV in the same order.
bool has_own_class(Schedule schedule) {
  return schedule == Schedule::gpipe || schedule == Schedule::one_f_one_b_blocking;
}

/// Of every stage, or with Recomputation::as_needed by stage; null: all.
ordered_json recompute_layers_json(const ExportBundle& bundle) {
  const ExecutionConfig& execution = bundle.job.execution;
  if (!traits(execution.recomputation).is_per_stage())
    return execution.recompute_layers ? ordered_json(*execution.recompute_layers) : ordered_json();
  const std::vector<Stage>& stages = bundle.plan.pipelines.front().stages;
  ordered_json json = ordered_json::array();
  for (const auto& [first, last] : virtual_stages(bundle))
    json.push_back(recomputed_layers(execution, stages[json.size() % stages.size()], last - first));
  return json;
}

ExportFiles files(const ExportBundle& bundle) {
  const ExecutionConfig& execution = bundle.job.execution;
  const Training& training = bundle.job.training;
  const PipelineShape shape = shape_between_flushes(bundle);
  ordered_json json = pipeline_json(bundle);
  json["chunks"] = shape.chunks;
  json["micro_batch"] = execution.micro_batch;
  json["micro_batches"] = micro_batches_per_pipeline(bundle);
  json["flush"] = execution.flush ? ordered_json(*execution.flush) : ordered_json();
  json["recompute_layers"] = recompute_layers_json(bundle);
  json["schedule"] = name_of(execution.schedule);
  json["optimizer_sharding"] = name_of(execution.optimizer_sharding);
  json["instances"] = instance_count(bundle);
  ordered_json optimizer = {
      {"class", optimizer_class(training.optimizer)},
      {"gradients", traits(training.optimizer).accumulates_fp32 ? "fp32" : "as weights"}};
  optimizer.update(optimizer_options(training.optimizer));
  json["optimizer"] = std::move(optimizer);
  ExportFiles files = pipeline_files(bundle, "pipelining_train.py", json);
  if (!has_own_class(execution.schedule))
    files.push_back({schedule_file, schedule_csv(execution.schedule, shape)});
  return files;
}

ReadBack read_back(const ExportFiles& files, const ExportBundle& bundle) {
  const auto json = nlohmann::json::parse(file_text(files, pipeline_file));
  const auto number = [&](const char* key) { return json.at(key).get<int>(); };
  const int chunks = number("chunks"), micro_batches = number("micro_batches"), replicas = number("replicas");
  ReadBack read = read_pipeline_files(files, chunks);
  read.micro_batches.assign(at(replicas), micro_batches);
  const Schedule schedule = kind_named(schedule_table(), json.at("schedule").get<std::string>()).value();
  const int flush = json.at("flush").is_null() ? micro_batches : std::min(number("flush"), micro_batches);
  DTFM_ASSERT(flush > 0 && micro_batches % flush == 0);  // train.py runs equal rounds
  PipelineShape shape = shape_between_flushes(bundle);
  shape.chunks = chunks;
  shape.devices = static_cast<int>(json.at("layers").size()) / chunks;
  shape.micro_batches = flush;
  if (!has_own_class(schedule)) DTFM_ASSERT(file_text(files, schedule_file) == schedule_csv(schedule, shape));
  DTFM_ASSERT(number("instances") == instance_count(bundle));
  const auto& optimizer = json.at("optimizer");
  const std::string planned = read.settings.at(Setting::optimizer);
  DTFM_ASSERT((optimizer.at("class") == "AdamW") == planned.starts_with("adam"));
  DTFM_ASSERT((optimizer.at("gradients") == "fp32") ==
              traits(kind_named(optimizer_table(), planned).value()).accumulates_fp32);
  read.settings[Setting::global_batch] = fmt::format("{}", number("micro_batch") * micro_batches * replicas);
  read.settings[Setting::micro_batch] = fmt::format("{}", number("micro_batch"));
  read.settings[Setting::context] = fmt::format("{}", number("context"));
  read.settings[Setting::optimizer_sharding] = json.at("optimizer_sharding").get<std::string>();
  read.settings[Setting::schedule] = json.at("schedule").get<std::string>();
  for (const auto& [setting, key] :
       {std::pair(Setting::flush, "flush"), std::pair(Setting::recompute_layers, "recompute_layers")})
    read.settings[setting] = json.at(key).is_number() ? fmt::format("{}", number(key)) : "";
  DTFM_ASSERT(json.at("recompute_layers").dump() == recompute_layers_json(bundle).dump());
  return read;
}

std::vector<std::string> notes(const ExportBundle& bundle) {
  std::vector<std::string> notes = program_notes(bundle, pipeline_file);
  if (bundle.job.execution.context > 1)
    notes.emplace_back(
        "with `context`, train.py computes attention without flash attention: it keeps no scores for the "
        "backward pass, but holds those of a rank's tokens while it computes; with `attention: flash`, plans "
        "count less time");
  if (traits(bundle.job.execution.optimizer_sharding).optimizer)
    notes.emplace_back(
        "FSDP2 holds the gradients of a stage twice while it reduces them: leave room for another 4 bytes "
        "per parameter of a stage");
  if (!has_own_class(bundle.job.execution.schedule))
    notes.emplace_back(
        "PyTorch loads schedule.csv by a private interface, _PipelineScheduleRuntime._load_csv: other "
        "versions than 2.15 may differ");
  return notes;
}

}  // namespace
}  // namespace pipelining

Exporter pytorch_pipelining_exporter() {
  using namespace pipelining;
  return {
      .name = target_name,
      .what = "torch.distributed.pipelining of PyTorch 2.15: a program, with any layer split and schedule",
      .is_trainer = true,
      .target = Target::pytorch_pipelining,
      .orders = traits(Target::pytorch_pipelining).orders,
      .evidence = Evidence::trained,
      .version = "PyTorch 2.15",
      .settings = exported,
      .files = files,
      .read_back = read_back,
      .usage =
          "On every machine, with torch on the PATH: `./start.sh MACHINE`. It starts `train.py` for each "
          "GPU of the plan; options\n"
          "of `train.py` (`--help`) can follow. pipeline.json has the sizes of batches and the optimizer.",
      .notes = notes};
}

}  // namespace dtfm::exporter
