// torchtitan 0.3.0: a configuration module with a Llama of the job's sizes, whose modules it assigns to
// stages.
#include <algorithm>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/kind_table.hpp"
#include "planner/export/export_requirements.hpp"
#include "planner/export/schedule_csv.hpp"
#include "planner/export/script_template.hpp"
#include "planner/export/trainer_rank_mapping.hpp"

namespace dtfm::exporter {

extern const std::string_view export_torchtitan_py;  // templates/torchtitan.py.in

namespace torchtitan {
namespace {

constexpr std::string_view target_name = "torchtitan";
constexpr const char* file_name = "dtfm_plan.py";

constexpr ExportedSettings exported = {{
    {Setting::global_batch, SettingForm::file, "`training.global_batch_size`"},
    {Setting::micro_batch, SettingForm::file,
     "`parallelism.pipeline_parallel_microbatch_size`; without pipelines also `training.local_batch_size`"},
    {Setting::precision, SettingForm::file,
     "`training.mixed_precision_param`; tf32: also `torch.set_float32_matmul_precision`"},
    {Setting::matmul, SettingForm::built_in, "products are in the precision of the training"},
    {Setting::optimizer, SettingForm::file, "`optimizer`: AdamW with fp32 state"},
    {Setting::pipeline, SettingForm::file, "`parallelism.pipeline_parallel_degree`"},
    {Setting::data, SettingForm::file,
     "`parallelism.data_parallel_replicate_degree` × `parallelism.data_parallel_shard_degree`"},
    {Setting::tensor, SettingForm::file, "`parallelism.tensor_parallel_degree`"},
    {Setting::context, SettingForm::built_in, "1"},
    {Setting::context_exchange, SettingForm::built_in, "no context parallelism"},
    {Setting::stage_data, SettingForm::built_in, "1"},
    {Setting::expert, SettingForm::built_in, "1: experts are divided like other layers"},
    {Setting::expert_dispatch, SettingForm::built_in, "no expert parallelism"},
    {Setting::expert_imbalance, SettingForm::built_in, "no expert parallelism"},
    {Setting::schedule, SettingForm::file,
     "`parallelism.pipeline_parallel_schedule`; without a class of PyTorch: "
     "`parallelism.pipeline_parallel_schedule_csv`, a table with the name of the schedule"},
    {Setting::chunks, SettingForm::file, "`parallelism.module_fqns_per_model_part`: parts ÷ stages"},
    {Setting::flush, SettingForm::built_in,
     "`training.local_batch_size` covers the iteration of a pipeline, so there is one flush"},
    {Setting::gradient_sync, SettingForm::note,
     "`NCCL_ALGO=Ring`; hierarchical-ring: `parallelism.data_parallel_replicate_degree` is the number of "
     "instances"},
    {Setting::optimizer_sharding, SettingForm::file,
     "`parallelism.data_parallel_shard_degree`, `parallelism.fsdp_reshard_after_forward` (FSDP2)"},
    {Setting::overlap, SettingForm::built_in,
     "with pipelines, gradients are reduced after the last backward pass of a stage"},
    {Setting::tied_embedding_sync, SettingForm::built_in, "ties embeddings only within a stage"},
    {Setting::iteration_barrier, SettingForm::built_in, "all ranks all-reduce the gradient norm"},
    {Setting::messages, SettingForm::built_in, "those of torch.distributed.pipelining"},
    {Setting::sequence_parallel, SettingForm::file, "`parallelism.enable_sequence_parallel`"},
    {Setting::scatter_gather, SettingForm::built_in, "no effect with sequence parallelism"},
    {Setting::uniform_pipelines, SettingForm::built_in, "always"},
    {Setting::recompute, SettingForm::file, "`activation_checkpoint`"},
    {Setting::recompute_layers, SettingForm::built_in, "all"},
    {Setting::activations, SettingForm::built_in, "no compression"},
    {Setting::gradients, SettingForm::built_in, "no compression"},
    {Setting::throughput, SettingForm::built_in, "no compression"},
    {Setting::bandwidth_threshold, SettingForm::built_in, "no compression"},
}};
static_assert(is_complete(exported));

/// Values of a setting and their texts in the file.
struct Notation {
  std::string_view value, text;
};
/// The classes of PyTorch. Other schedules are tables, which torchtitan loads whatever class it is given, and
/// numbers the stages of a device as for that class: device d of p has the stages d, d + p, …
constexpr Notation classes[] = {
    {"1f1b-blocking", "1F1B"}, {"gpipe", "GPipe"}, {"interleaved", "Interleaved1F1B"}};
constexpr std::string_view class_of_tables = "PipelineScheduleMulti", csv_suffix = ".csv",
                           csv_path = "str(Path(__file__).with_name(";
constexpr Notation shardings[] = {{"none", "default"}, {"zero1", "never"}, {"zero3", "always"}};
constexpr Notation recomputations[] = {{"none", "None"}, {"full", "FullAC.Config()"}};
constexpr std::string_view tf32_line = "torch.set_float32_matmul_precision(\"high\")  # TF32\n";
/// The gradients of a stage's input are computed with retain_graph, in which compiled functions such as flex
/// attention may not reuse the buffers of the forward pass.
constexpr std::string_view split_line =
    "torch._functorch.config.donated_buffer = False  # backward passes are split into halves\n";
constexpr std::string_view adam = "default_adamw(";

std::optional<std::string> find_text(std::span<const Notation> table, std::string_view value) {
  const auto row =
      std::find_if(table.begin(), table.end(), [&](const Notation& it) { return it.value == value; });
  if (row == table.end()) return std::nullopt;
  return std::string(row->text);
}

std::string to_text(std::span<const Notation> table, std::string_view value) {
  const std::optional<std::string> text = find_text(table, value);
  DTFM_ASSERT(text.has_value());
  return *text;
}

std::string to_value(std::span<const Notation> table, std::string_view text) {
  const auto row =
      std::find_if(table.begin(), table.end(), [&](const Notation& it) { return it.text == text; });
  DTFM_ASSERT(row != table.end());
  return std::string(row->value);
}

std::string_view unquoted(std::string_view text) {
  return text.substr(1, text.size() - 2);
}

/// As `to_value`, of a text in quotes.
std::string unquoted_value(std::span<const Notation> table, std::string_view text) {
  return to_value(table, unquoted(text));
}

/// The modules of each virtual stage, in model order. Every module must be listed: torchtitan silently drops
/// those that are not.
std::vector<std::vector<std::string>> stage_modules(const ExportBundle& bundle) {
  std::vector<std::vector<std::string>> parts;
  for (const auto& [begin, end] : virtual_stages(bundle)) {
    auto& part = parts.emplace_back();
    if (parts.size() == 1) part.emplace_back("tok_embeddings");
    for (int layer = begin; layer < end; ++layer) part.push_back(fmt::format("layers.{}", layer));
  }
  parts.back().insert(parts.back().end(), {"norm", "lm_head"});
  return parts;
}

std::string csv_name(std::string_view schedule) {
  return fmt::format("{}{}", schedule, csv_suffix);
}

std::string format_modules(const std::vector<std::vector<std::string>>& parts) {
  std::string text = "[\n";
  for (const auto& part : parts) text += "                " + nlohmann::json(part).dump() + ",\n";
  return text + "            ]";
}

ExportFiles files(const ExportBundle& bundle) {
  const auto& model = std::get<Transformer>(bundle.job.model);
  const Precision precision = bundle.job.training.precision;
  const int micro_batch = bundle.job.execution.micro_batch, stages = stage_count(bundle);
  const bool is_sharded = traits(bundle.job.execution.optimizer_sharding).optimizer;
  const int replicas = replica_count(bundle), copies = is_sharded ? instance_count(bundle) : replicas;
  const auto number = [](int value) { return fmt::format("{}", value); };
  const std::string schedule(name_of(bundle.job.execution.schedule));
  const std::optional<std::string> own_class = find_text(classes, schedule);
  const bool splits = traits(bundle.job.execution.schedule).splits_backward;
  const std::string csv = own_class ? "\"\"" : fmt::format("{}\"{}\"))", csv_path, csv_name(schedule));
  ExportFiles files = {
      {file_name,
       fill_template(export_torchtitan_py,
                     {{"layers", number(model.layers)},
                      {"hidden", number(model.hidden)},
                      {"heads", number(model.heads)},
                      {"kv_heads", number(kv_head_count(model))},
                      {"head_dim", number(head_width(model))},
                      {"feed_forward", number(mlp_width(model))},
                      {"vocabulary", number(model.vocabulary)},
                      {"sequence", number(model.sequence)},
                      {"tied", model.tied ? "True" : "False"},
                      {"matmul", precision == Precision::tf32 ? std::string(tf32_line) : ""},
                      {"split", splits ? std::string(split_line) : ""},
                      {"local_batch",
                       number(stages > 1 ? micro_batches_per_pipeline(bundle) * micro_batch : micro_batch)},
                      {"global_batch", number(bundle.job.training.global_batch)},
                      {"compute", precision == Precision::bf16 ? "bfloat16" : "float32"},
                      {"stages", number(stages)},
                      {"replicas", number(copies)},
                      {"shards", number(replicas / copies)},
                      {"reshard", to_text(shardings, name_of(bundle.job.execution.optimizer_sharding))},
                      {"tensor", number(tensor_degree(bundle))},
                      {"schedule", own_class.value_or(std::string(class_of_tables))},
                      {"schedule_csv", csv},
                      {"micro_batch", number(micro_batch)},
                      {"modules", format_modules(stage_modules(bundle))},
                      {"recompute", to_text(recomputations, name_of(bundle.job.execution.recomputation))}})}};
  if (!own_class)
    files.push_back(
        {csv_name(schedule), schedule_csv(bundle.job.execution.schedule, shape_between_flushes(bundle))});
  return files;
}

/// Number of layers in each part. Asserts that the parts list the embedding, all layers in order, the norm
/// and the head, each once.
std::vector<int> read_layers(const std::string& text) {
  std::string list = text_after(text, "module_fqns_per_model_part=", "");  // with all text after it
  list = list.substr(0, list.find(",\n            ]")) + "]";
  const auto parts = nlohmann::json::parse(list).get<std::vector<std::vector<std::string>>>();
  std::vector<std::string> all;
  std::vector<int> layers;
  for (const auto& part : parts) {
    layers.push_back(0);
    for (const std::string& module : part) {
      if (module.starts_with("layers.")) ++layers.back();
      all.push_back(module);
    }
  }
  DTFM_ASSERT(all.size() > 3 && all.front() == "tok_embeddings" && all.back() == "lm_head" &&
              all[all.size() - 2] == "norm");
  for (std::size_t i = 1; i + 2 < all.size(); ++i) DTFM_ASSERT(all[i] == fmt::format("layers.{}", i - 1));
  return layers;
}

/// The schedule whose table has this path. Asserts that it has the plan's operations.
std::string read_schedule_csv(const ExportFiles& files, const std::string& path, const TrainerGrid& grid,
                              int micro_batches, const ExportBundle& bundle) {
  const std::string name = text_after(path, std::string(csv_path) + "\"", "\"");
  DTFM_ASSERT(name.ends_with(csv_suffix));
  const std::string schedule = name.substr(0, name.size() - csv_suffix.size());
  const std::optional<Schedule> kind = kind_named(schedule_table(), schedule);
  DTFM_ASSERT(kind.has_value());
  PipelineShape shape = shape_between_flushes(bundle);
  shape.devices = grid.pipeline;
  shape.chunks = static_cast<int>(grid.layers.size()) / grid.pipeline;
  shape.micro_batches = micro_batches;
  DTFM_ASSERT(file_text(files, name) == schedule_csv(*kind, shape));
  DTFM_ASSERT(traits(*kind).splits_backward == (file_text(files, file_name).find(split_line) != name.npos));
  return schedule;
}

/// As torchtitan derives roles and micro-batches: without pipelines, local_batch_size is a micro-batch.
ReadBack read_back(const ExportFiles& files, const ExportBundle& bundle) {
  const std::string& text = file_text(files, file_name);
  const auto value = [&](std::string_view key) { return text_after(text, fmt::format(" {}=", key), ",\n"); };
  const auto number = [&](std::string_view key) { return parse_number(value(key)); };
  const int shards = number("data_parallel_shard_degree");
  const std::string sharding = unquoted_value(shardings, value("fsdp_reshard_after_forward"));
  const int copies = number("data_parallel_replicate_degree");
  DTFM_ASSERT(sharding == "none" ? shards == 1 : copies == instance_count(bundle));
  DTFM_ASSERT(number("context_parallel_degree") == 1);
  DTFM_ASSERT(text.find(adam) != std::string::npos && value("disable_cuda_graphs") == "True");
  const TrainerGrid grid{.tensor = number("tensor_parallel_degree"),
                         .data = copies * shards,
                         .pipeline = number("pipeline_parallel_degree"),
                         .layers = read_layers(text)};
  const int micro_batch = number("pipeline_parallel_microbatch_size"), local = number("local_batch_size"),
            global = number("global_batch_size"),
            chunks = static_cast<int>(grid.layers.size()) / grid.pipeline;
  DTFM_ASSERT(grid.pipeline > 1 ? global == local * grid.data : local == micro_batch);
  DTFM_ASSERT(global % (micro_batch * grid.data) == 0);
  const int micro_batches = global / grid.data / micro_batch;
  const std::string schedule_class = value("pipeline_parallel_schedule"),
                    csv = value("pipeline_parallel_schedule_csv");
  const bool has_table = unquoted(schedule_class) == class_of_tables;
  DTFM_ASSERT(has_table || csv == "\"\"");
  const std::string schedule = has_table ? read_schedule_csv(files, csv, grid, micro_batches, bundle)
                                         : unquoted_value(classes, schedule_class);
  const bool is_bf16 = value("mixed_precision_param") == "\"bfloat16\"";
  const bool is_tf32 = text.find(tf32_line) != std::string::npos;
  return {map_ranks(files, grid),
          std::vector<int>(at(grid.data), micro_batches),
          {{Setting::global_batch, fmt::format("{}", global)},
           {Setting::micro_batch, fmt::format("{}", micro_batch)},
           {Setting::precision, is_bf16   ? "bf16"
                                : is_tf32 ? "tf32"
                                          : "fp32"},
           {Setting::optimizer, is_bf16 ? "adam-18" : "adam-16"},
           {Setting::pipeline, fmt::format("{}", grid.pipeline)},
           {Setting::data, fmt::format("{}", grid.data)},
           {Setting::tensor, fmt::format("{}", grid.tensor)},
           {Setting::schedule, schedule},
           {Setting::optimizer_sharding, sharding},
           {Setting::chunks, chunks > 1 ? fmt::format("{}", chunks) : ""},
           {Setting::sequence_parallel, value("enable_sequence_parallel") == "True" ? "true" : "false"},
           {Setting::recompute, to_value(recomputations, value("activation_checkpoint"))}}};
}

std::vector<std::string> notes(const ExportBundle& bundle) {
  const auto& model = std::get<Transformer>(bundle.job.model);
  std::vector<std::string> notes = {
      "the export trains on random tokens without a tokenizer (RandomTokens and NoTokenizer in "
      "dtfm_plan.py): to train on text, replace `dataloader` and `tokenizer`",
      "AdamW with learning rate 3e-4 after 2 warm-up steps, 20 steps in all: LEARNING_RATE, WARM_UP_STEPS "
      "and STEPS in dtfm_plan.py",
      "rotary base 500000 and norm epsilon 1e-5, those of Llama 3: ROPE_THETA and NORM_EPSILON in "
      "dtfm_plan.py",
      "collectives time out after 1800 s: TIMEOUT_SECONDS in dtfm_plan.py"};
  if (const int stages = stage_count(bundle); stages > 1)
    notes.push_back(fmt::format("the loss is on rank {0}: set LOG_RANK={0} to see it",
                                bundle.world_size() / stages * (stages - 1)));
  if (const std::string_view schedule = name_of(bundle.job.execution.schedule); !find_text(classes, schedule))
    notes.push_back(fmt::format(
        "{} has the operations of {} micro-batches of {}: after a change of `local_batch_size`, "
        "`pipeline_parallel_microbatch_size` or the stages, plan again",
        csv_name(schedule), micro_batches_per_pipeline(bundle), bundle.job.execution.micro_batch));
  if (!model.flash_attention)
    notes.emplace_back(
        "the plan has `attention: eager`, but torchtitan never stores attention scores, and has no dropout: "
        "it takes less memory and time; plan with `attention: flash`");
  const OptimizerShardingTraits& sharding = traits(bundle.job.execution.optimizer_sharding);
  if (stage_count(bundle) == 1 && micro_batches_per_pipeline(bundle) > 1 && replica_count(bundle) > 1 &&
      !sharding.gradients)
    notes.push_back(fmt::format(
        "without pipelines, torchtitan synchronizes gradients{} after each of the {} micro-batches, but the "
        "plan counts one synchronization: use larger micro-batches",
        sharding.optimizer ? " and gathers parameters" : "", micro_batches_per_pipeline(bundle)));
  if (sharding.optimizer && !sharding.gradients && stage_count(bundle) > 1)
    notes.emplace_back(
        "FSDP2 gathers the parameters of each block in a separate all-gather, but the plan counts one per "
        "stage: over links with high latency, an iteration takes longer than planned");
  return notes;
}

}  // namespace
}  // namespace torchtitan

Exporter torchtitan_exporter() {
  using namespace torchtitan;
  return {
      .name = target_name,
      .what = "torchtitan 0.3.0: a complete configuration module, dtfm_plan.py, and schedules as tables",
      .is_trainer = true,
      .target = Target::torchtitan,
      .orders = traits(Target::torchtitan).orders,
      .evidence = Evidence::accepted,
      .version = "torchtitan 0.3.0",
      .settings = exported,
      .files = files,
      .read_back = read_back,
      .usage =
          "Needs a launcher: `--to torchtitan,torchrun`. On every machine, in this folder: `PYTHONPATH=. "
          "./torchrun.sh MACHINE\n"
          "-m torchtitan.train --module dtfm_plan --config dtfm_plan`. Slurm and Open MPI start `python3 -m "
          "torchtitan.train …`.",
      .notes = notes};
}

}  // namespace dtfm::exporter
