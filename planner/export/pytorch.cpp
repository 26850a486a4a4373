// The PyTorch runtime of this project (python/): the plan as a program for every rank, and the runtime
// itself.
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/model/model_features.hpp"
#include "planner/export/export_requirements.hpp"
#include "planner/export/pytorch_program.hpp"
#include "planner/export/runtime_files.hpp"
#include "planner/export/torchrun_script.hpp"
#include "planner/export/trainer_rank_mapping.hpp"

namespace dtfm::exporter {
namespace pytorch {
namespace {

constexpr std::string_view target_name = "pytorch";

constexpr ExportedSettings exported = {{
    {Setting::global_batch, SettingForm::file, "`training.global_batch`"},
    {Setting::micro_batch, SettingForm::file, "`training.micro_batch`"},
    {Setting::precision, SettingForm::file, "`training.precision`"},
    {Setting::matmul, SettingForm::built_in, "products are in the precision of the training"},
    {Setting::optimizer, SettingForm::file, "`training.optimizer`"},
    {Setting::pipeline, SettingForm::layout, "`ranks[].chunks`"},
    {Setting::data, SettingForm::layout, "`pipelines`"},
    {Setting::tensor, SettingForm::built_in, "1"},
    {Setting::context, SettingForm::built_in, "1"},
    {Setting::context_exchange, SettingForm::built_in, "no context parallelism"},
    {Setting::stage_data, SettingForm::built_in, "1"},
    {Setting::expert, SettingForm::built_in, "1: experts are divided like other layers"},
    {Setting::expert_dispatch, SettingForm::built_in, "no expert parallelism"},
    {Setting::expert_imbalance, SettingForm::built_in, "no expert parallelism"},
    {Setting::schedule, SettingForm::file, "`execution.schedule`, `orders`"},
    {Setting::chunks, SettingForm::layout, "`ranks[].chunks`"},
    {Setting::flush, SettingForm::file, "`execution.flush`, `orders`"},
    {Setting::gradient_sync, SettingForm::file, "`execution.gradient_sync`, `collectives`"},
    {Setting::optimizer_sharding, SettingForm::file, "`execution.optimizer_sharding`"},
    {Setting::overlap, SettingForm::file, "`execution.overlap`"},
    {Setting::tied_embedding_sync, SettingForm::file, "`execution.tied_embedding_sync`"},
    {Setting::iteration_barrier, SettingForm::built_in, "only with fp16, for loss scaling"},
    {Setting::messages, SettingForm::built_in, "receives are posted ahead"},
    {Setting::sequence_parallel, SettingForm::built_in, "no effect without tensor parallelism"},
    {Setting::scatter_gather, SettingForm::built_in, "no effect without tensor parallelism"},
    {Setting::uniform_pipelines, SettingForm::layout, "`pipelines`; they may differ"},
    {Setting::recompute, SettingForm::file,
     "`training.recompute`; as-needed: also `ranks[].chunks[].recompute_layers`; offload: also "
     "`ranks[].chunks[].offload_layers`"},
    {Setting::recompute_layers, SettingForm::built_in, "all"},
    {Setting::activations, SettingForm::layout, "`ranks[].chunks[].compress_input`"},
    {Setting::gradients, SettingForm::layout, "`sync_groups[].compress`"},
    {Setting::throughput, SettingForm::built_in, "that of the processor that compresses"},
    {Setting::bandwidth_threshold, SettingForm::layout, "which messages are compressed"},
}};
static_assert(is_complete(exported));

/// Limit for all ranks together; program.py rejects more (MAX_OPERATIONS).
constexpr double max_operations = 2e7;

double operations_of(const ExportBundle& bundle) {
  double sum = 0;
  for (const RankAssignment& it : bundle.assignments) {
    const double micro_batches = bundle.plan.pipelines[at(it.pipeline)].micro_batches;
    const double kinds = traits(bundle.job.execution.schedule).splits_backward ? 3 : 2;
    sum += kinds * micro_batches * static_cast<double>(it.layers.size());
  }
  return sum;
}

void check(const ExportBundle& bundle) {
  if (const double operations = operations_of(bundle); operations > max_operations)
    reject(target_name,
           fmt::format("the plan has {:.3g} computations per iteration, more than the {:.3g} of a "
                       "program; plan with larger micro-batches",
                       operations, max_operations));
  program_json(bundle);  // rejects a bundle that lacks the topology on which a decision depends
}

ExportFiles files(const ExportBundle& bundle) {
  ExportFiles files = {
      {"plan.json", bundle.plan_text}, {program_file, program_json(bundle)}, start_script(bundle)};
  for (const RuntimeFile& it : runtime_files()) files.push_back({std::string(it.name), std::string(it.text)});
  return files;
}

/// The settings of the sections `training` and `execution`.
std::map<Setting, std::string> read_settings(const nlohmann::json& program) {
  std::map<Setting, std::string> settings;
  for (const ExportedSetting& it : exported) {
    if (it.form != SettingForm::file) continue;
    const SettingTraits& row = traits(it.kind);
    const nlohmann::json& section =
        program.at(row.section == SettingSection::training ? "training" : "execution");
    const nlohmann::json value = section.value(std::string(row.name), nlohmann::json());
    settings[it.kind] = value.is_string() ? value.get<std::string>() : value.is_null() ? "" : value.dump();
  }
  return settings;
}

/// As program.py reads them.
ReadBack read_back(const ExportFiles& files, const ExportBundle&) {
  const auto program = nlohmann::json::parse(file_text(files, program_file));
  ReadBack read{.rows = read_table_rows(files), .settings = read_settings(program)};
  DTFM_ASSERT(program.at("ranks").size() == read.rows.size());
  for (std::size_t rank = 0; rank < read.rows.size(); ++rank) {
    const auto& json = program["ranks"][rank];
    DTFM_ASSERT(json.at("host") == read.rows[rank].address);
    read.rows[rank].assignment = {0, json.at("pipeline").get<int>(), json.at("stage").get<int>(), 0, {}};
    for (const auto& chunk : json.at("chunks"))
      read.rows[rank].assignment.layers.push_back(chunk.at("layers").get<std::pair<int, int>>());
  }
  for (const auto& pipeline : program.at("pipelines"))
    read.micro_batches.push_back(pipeline.at("micro_batches").get<int>());
  read_torchrun_script(file_text(files, start_file), read.rows);
  return read;
}

std::vector<std::string> notes(const ExportBundle& bundle) {
  const auto* model = std::get_if<Transformer>(&bundle.job.model);
  if (model == nullptr)
    return {"the model is a chain of layers: pass their modules to train.py with --model"};
  if (const std::string_view beyond = beyond_plain_blocks(*model); !beyond.empty())
    return {fmt::format("the model has {}: pass the modules of its layers to train.py with --model", beyond)};
  return {};
}

}  // namespace
}  // namespace pytorch

Exporter pytorch_exporter() {
  using namespace pytorch;
  return {
      .name = target_name,
      .what = "train.py, the runtime of dtfm for PyTorch 1.13 or later: supports heterogeneous pipelines",
      .is_trainer = true,
      .target = Target::pytorch,
      .orders = traits(Target::pytorch).orders,
      .evidence = Evidence::trained,
      .version = "PyTorch 1.13 and 2.15",
      .settings = exported,
      .check = check,
      .files = files,
      .read_back = read_back,
      .usage =
          "On every machine: `./start.sh MACHINE`, which starts `train.py` for each GPU with torchrun. "
          "Other launchers (`--to slurm`,\n"
          "`openmpi`, `kubernetes`) start `python3 train.py` with the rank in RANK, the number of ranks in "
          "WORLD_SIZE, and the\n"
          "address and port of rank 0 in MASTER_ADDR and MASTER_PORT.\n"
          "`python3 train.py --help` lists its options: data, checkpoints, measurements, your own model.",
      .notes = notes};
}

}  // namespace dtfm::exporter
