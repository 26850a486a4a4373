// DeepSpeed's pipeline engine: a program, its configuration, and the plan's stages.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "planner/export/export_requirements.hpp"
#include "planner/export/pipeline_files.hpp"

namespace dtfm::exporter {
namespace deepspeed {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view target_name = "deepspeed";
constexpr const char* config_file = "ds_config.json";

constexpr ExportedSettings exported = {{
    {Setting::global_batch, SettingForm::file, "`train_batch_size`"},
    {Setting::micro_batch, SettingForm::file, "`train_micro_batch_size_per_gpu`"},
    {Setting::precision, SettingForm::file, "`bf16`, `fp16`; tf32: `precision` of pipeline.json"},
    {Setting::matmul, SettingForm::built_in, "products are in the precision of the training"},
    {Setting::optimizer, SettingForm::file, "`optimizer`; `planned_optimizer` of pipeline.json"},
    {Setting::pipeline, SettingForm::layout, "`layers` of pipeline.json"},
    {Setting::data, SettingForm::layout, "`replicas` of pipeline.json"},
    {Setting::tensor, SettingForm::built_in, "1"},
    {Setting::context, SettingForm::built_in, "1"},
    {Setting::context_exchange, SettingForm::built_in, "no context parallelism"},
    {Setting::stage_data, SettingForm::built_in, "1"},
    {Setting::expert, SettingForm::built_in, "1: experts are divided like other layers"},
    {Setting::expert_dispatch, SettingForm::built_in, "no expert parallelism"},
    {Setting::expert_imbalance, SettingForm::built_in, "no expert parallelism"},
    {Setting::schedule, SettingForm::built_in, "1f1b-blocking (TrainSchedule)"},
    {Setting::chunks, SettingForm::built_in, "none"},
    {Setting::flush, SettingForm::built_in, "only at the end of an iteration"},
    {Setting::gradient_sync, SettingForm::built_in, "rings of NCCL (`NCCL_ALGO` in start.sh)"},
    {Setting::optimizer_sharding, SettingForm::file, "`zero_optimization.stage`"},
    {Setting::overlap, SettingForm::built_in, "after the last backward pass"},
    {Setting::tied_embedding_sync, SettingForm::built_in, "`TiedLayerSpec`, if the model ties embeddings"},
    {Setting::iteration_barrier, SettingForm::built_in, "the loss is broadcast in every iteration"},
    {Setting::messages, SettingForm::built_in, "deepspeed"},
    {Setting::sequence_parallel, SettingForm::built_in, "no effect without tensor parallelism"},
    {Setting::scatter_gather, SettingForm::built_in, "no effect without tensor parallelism"},
    {Setting::uniform_pipelines, SettingForm::built_in, "always"},
    {Setting::recompute, SettingForm::file, "`recompute` of pipeline.json"},
    {Setting::recompute_layers, SettingForm::built_in, "all"},
    {Setting::activations, SettingForm::built_in, "no compression"},
    {Setting::gradients, SettingForm::built_in, "no compression"},
    {Setting::throughput, SettingForm::built_in, "no compression"},
    {Setting::bandwidth_threshold, SettingForm::built_in, "no compression"},
}};
static_assert(is_complete(exported));

/// DeepSpeed's pipelines run no other stages (runtime/pipe/engine.py).
int zero_stage(const ExportBundle& bundle) {
  return bundle.job.execution.optimizer_sharding == OptimizerSharding::zero1 ? 1 : 0;
}

ordered_json config(const ExportBundle& bundle) {
  const Training& training = bundle.job.training;
  ordered_json options = optimizer_options(training.optimizer);
  // Otherwise DeepSpeed compiles an Adam of its own when it starts.
  if (optimizer_class(training.optimizer) == "AdamW") options["torch_adam"] = true;
  ordered_json config = {
      {"train_batch_size", training.global_batch},
      {"train_micro_batch_size_per_gpu", bundle.job.execution.micro_batch},
      {"gradient_accumulation_steps", micro_batches_per_pipeline(bundle)},
      {"optimizer", {{"type", optimizer_class(training.optimizer)}, {"params", std::move(options)}}},
      {"gradient_clipping", 0.0},  // default: 1
      {"steps_per_print", 1000000},
      {"zero_optimization", {{"stage", zero_stage(bundle)}}}};
  if (zero_stage(bundle) > 0) {
    // A buffer has `reduce_bucket_size` elements.
    config["zero_optimization"].update(
        ordered_json{{"overlap_comm", false}, {"reduce_bucket_size", 50000000}});
    config["zero_allow_untested_optimizer"] = true;  // SGD
  }
  if (training.precision == Precision::fp16)
    config["fp16"] = {{"enabled", true}, {"initial_scale_power", 16}};
  if (training.precision == Precision::bf16) config["bf16"] = {{"enabled", true}};
  if (training.precision == Precision::bf16 && traits(training.optimizer).accumulates_fp32) {
    config["data_types"] = {{"grad_accum_dtype", "fp32"}};
    config["communication_data_type"] = "fp32";
  }
  return config;
}

ExportFiles files(const ExportBundle& bundle) {
  ExportFiles files = pipeline_files(bundle, "deepspeed_train.py", pipeline_json(bundle));
  files.push_back({config_file, config(bundle).dump(1) + "\n"});
  return files;
}

/// As DeepSpeed reads the configuration (runtime/config.py).
std::string precision_of(const nlohmann::json& config, const std::string& planned) {
  for (const char* name : {"fp16", "bf16"})
    if (config.contains(name) && config[name].at("enabled") == true) return name;
  return planned == "tf32" ? planned : "fp32";
}

ReadBack read_back(const ExportFiles& files, const ExportBundle&) {
  const auto json = nlohmann::json::parse(file_text(files, config_file));
  const auto number = [&](const char* key) { return json.at(key).get<int>(); };
  ReadBack read = read_pipeline_files(files, 1);
  const int micro_batches = number("gradient_accumulation_steps");
  const int replica_batch = number("train_micro_batch_size_per_gpu") * micro_batches;
  DTFM_ASSERT(number("train_batch_size") % replica_batch == 0);  // as DeepSpeed does
  const int replicas = number("train_batch_size") / replica_batch;
  DTFM_ASSERT(static_cast<int>(read.rows.size()) % replicas == 0 &&
              read.rows.back().assignment.pipeline == replicas - 1);
  DTFM_ASSERT(json.at("optimizer").at("type").get<std::string>().starts_with("Adam") ==
              read.settings.at(Setting::optimizer).starts_with("adam"));
  const int stage = json.at("zero_optimization").at("stage").get<int>();
  DTFM_ASSERT(stage <= 1);
  read.micro_batches.assign(at(replicas), micro_batches);
  read.settings[Setting::global_batch] = fmt::format("{}", number("train_batch_size"));
  read.settings[Setting::micro_batch] = fmt::format("{}", number("train_micro_batch_size_per_gpu"));
  read.settings[Setting::precision] = precision_of(json, read.settings.at(Setting::precision));
  read.settings[Setting::optimizer_sharding] =
      name_of(stage == 1 ? OptimizerSharding::zero1 : OptimizerSharding::none);
  return read;
}

std::vector<std::string> notes(const ExportBundle& bundle) {
  std::vector<std::string> notes = program_notes(bundle, config_file);
  notes.emplace_back("gradients are not clipped, as planned: `gradient_clipping` in ds_config.json");
  notes.emplace_back(
      "DeepSpeed's own launcher would assign other ranks: use start.sh, or a launcher that sets RANK, "
      "LOCAL_RANK and WORLD_SIZE (torchrun, slurm, openmpi)");
  return notes;
}

}  // namespace
}  // namespace deepspeed

Exporter deepspeed_exporter() {
  using namespace deepspeed;
  return {.name = target_name,
          .what = "DeepSpeed 0.19: a program for its pipeline engine, with any layer split",
          .is_trainer = true,
          .target = Target::deepspeed,
          .orders = traits(Target::deepspeed).orders,
          .evidence = Evidence::trained,
          .version = "DeepSpeed 0.19.8, PyTorch 2.15",
          .settings = exported,
          .files = files,
          .read_back = read_back,
          .usage =
              "On every machine, with torch and deepspeed on the PATH: `./start.sh MACHINE`. It starts "
              "`train.py` for each GPU of the\n"
              "plan; options of `train.py` (`--help`) can follow. ds_config.json has batch sizes, precision "
              "and optimizer.",
          .notes = notes};
}

}  // namespace dtfm::exporter
