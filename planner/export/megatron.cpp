// Megatron-LM: flags of pretrain_gpt.py and similar programs, with the pipeline layout.
#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/model/model_features.hpp"
#include "core/plan/virtual_stages.hpp"
#include "planner/export/export_requirements.hpp"
#include "planner/export/trainer_rank_mapping.hpp"
#include "core/io/importers/megatron_flags.hpp"
#include "core/io/importers/megatron_plan.hpp"
#include "core/io/importers/megatron_settings.hpp"

namespace dtfm::exporter {
namespace megatron {
namespace {

constexpr const char* file_name = "megatron.sh";
constexpr std::string_view target_name = "megatron";

constexpr ExportedSettings exported = {{
    {Setting::global_batch, SettingForm::file, "`--global-batch-size`"},
    {Setting::micro_batch, SettingForm::file, "`--micro-batch-size` × `stage_data`"},
    {Setting::precision, SettingForm::file,
     "`--fp16`, `--bf16`; without them Transformer Engine multiplies in TF32"},
    {Setting::matmul, SettingForm::file, "`--fp8-format`, `--fp8-recipe`, `--fp4-format`"},
    {Setting::optimizer, SettingForm::file, "`--optimizer adam`"},
    {Setting::pipeline, SettingForm::file, "`--pipeline-model-parallel-size`"},
    {Setting::data, SettingForm::layout, "ranks ÷ (tensor size × pipeline size × `stage_data`)"},
    {Setting::tensor, SettingForm::file, "`--tensor-model-parallel-size`"},
    {Setting::context, SettingForm::file, "`--context-parallel-size`"},
    {Setting::context_exchange, SettingForm::file, "`--cp-comm-type`"},
    {Setting::stage_data, SettingForm::layout,
     "ranks ÷ (tensor size × pipeline size × pipelines of the plan)"},
    {Setting::expert, SettingForm::file, "`--expert-model-parallel-size`, `--expert-tensor-parallel-size 1`"},
    {Setting::expert_dispatch, SettingForm::file,
     "`--moe-token-dispatcher-type`; hierarchical: flex with DeepEP"},
    {Setting::expert_imbalance, SettingForm::note, "the router decides it"},
    {Setting::schedule, SettingForm::file,
     "`--pipeline-model-parallel-layout`, `--overlap-p2p-communication-warmup-flush`"},
    {Setting::chunks, SettingForm::file, "`--pipeline-model-parallel-layout`: its stages ÷ pipeline size"},
    {Setting::flush, SettingForm::built_in, "never within an iteration"},
    {Setting::gradient_sync, SettingForm::note,
     "`NCCL_ALGO=Ring`; hierarchical-ring: also `--num-distributed-optimizer-instances`"},
    {Setting::optimizer_sharding, SettingForm::file, "`--use-distributed-optimizer`"},
    {Setting::overlap, SettingForm::file, "`--overlap-grad-reduce`"},
    {Setting::tied_embedding_sync, SettingForm::file,
     "without `--untie-embeddings-and-output-weights`, or with `--mtp-num-layers`"},
    {Setting::iteration_barrier, SettingForm::built_in, "all ranks all-reduce the gradient norm"},
    {Setting::messages, SettingForm::built_in, "those of megatron-core"},
    {Setting::sequence_parallel, SettingForm::file, "`--sequence-parallel`"},
    {Setting::scatter_gather, SettingForm::built_in,
     "without sequence parallelism, every device sends whole messages"},
    {Setting::uniform_pipelines, SettingForm::built_in, "always"},
    {Setting::recompute, SettingForm::file,
     "`--recompute-granularity`; full: also `--recompute-method uniform --recompute-num-layers 1`; mlp, "
     "moe_act: also `--recompute-modules`"},
    {Setting::recompute_layers, SettingForm::file, "`--recompute-method block`, `--recompute-num-layers`"},
    {Setting::activations, SettingForm::built_in, "no compression"},
    {Setting::gradients, SettingForm::built_in, "no compression"},
    {Setting::throughput, SettingForm::built_in, "no compression"},
    {Setting::bandwidth_threshold, SettingForm::built_in, "no compression"},
}};
static_assert(is_complete(exported));

io::MegatronRun run_of(const ExportBundle& bundle) {
  return {bundle.job, tensor_degree(bundle), stage_count(bundle), instance_count(bundle)};
}

const Transformer& model_of(const ExportBundle& bundle) {
  return std::get<Transformer>(bundle.job.model);
}

/// The pipeline layout, such as Ettt|tt|ttL; with virtual stages: chunk 0 of each stage, then chunk 1, …
/// Modules for multi-token prediction (m) are with the loss.
std::string format_layout(const ExportBundle& bundle) {
  std::string layout = "E";
  const char* separator = "";
  for (const auto& [begin, end] : virtual_stages(bundle)) {
    layout += separator;
    layout.append(at(end - begin), 't');
    separator = "|";
  }
  return layout.append(at(model_of(bundle).predicted_tokens), 'm') + "L";
}

/// A line of the list of arguments. Patterns of layers are quoted, because shells expand brackets.
std::string argument_line(std::string_view name, std::string_view value) {
  if (value.empty()) return fmt::format("  {}\n", name);
  const char* quote = value.find('[') == value.npos ? "" : "\"";
  return fmt::format("  {} {}{}{}\n", name, quote, value, quote);
}

/// Sizes. Importers require them to equal those of the job, but not the values of other flags.
std::string size_flags(const Transformer& model) {
  return fmt::format(
      "  --hidden-size {}\n  --num-attention-heads {}\n  --seq-length {}\n"
      "  --max-position-embeddings {}\n",
      model.hidden, model.heads, model.sequence, model.positions > 0 ? model.positions : model.sequence);
}

/// What a first run needs besides the plan. NullTokenizer adds one token to its vocabulary.
std::string first_run_flags(const Transformer& model, MatmulFormat matmul) {
  std::string flags = "  # A first run on generated tokens: README.md says what is assumed.\n";
  const bool is_llama = is_llama_like(model);
  flags += argument_line("--hidden-dropout", is_llama || !model.dropout ? "0.0" : "0.1");
  flags += argument_line("--norm-epsilon", "1e-5");
  if (!model.learned_positions) flags += argument_line("--rotary-base", "500000");
  if (model.latent.kv_rank > 0) flags += argument_line("--rotary-scaling-factor", "1.0");
  if (has_block(model, Mlp::experts)) flags += argument_line("--moe-aux-loss-coeff", "1e-2");
  if (has_block(model, Mlp::experts) && matmul != MatmulFormat::precision)
    flags += "  --moe-router-padding-for-quantization\n";
  if (!model.gated && bias_pattern(model) != BiasPattern::all) flags += "  --no-bias-gelu-fusion\n";
  flags += "  --mock-data\n  --tokenizer-type NullTokenizer\n";
  flags += argument_line("--vocab-size", fmt::format("{}", std::max(1, model.vocabulary - 1)));
  return flags +
         "  --lr 3e-4\n  --train-iters 20\n  --eval-iters 0\n  --log-interval 1\n"
         "  --distributed-timeout-minutes 60\n";
}

/// Degrees of models with experts. Megatron-LM divides each expert by the tensor size unless told otherwise.
std::string expert_flags(const ExportBundle& bundle) {
  if (!has_block(model_of(bundle), Mlp::experts)) return "";
  const int expert = bundle.job.execution.expert;
  return fmt::format("  --expert-model-parallel-size {}\n{}", expert,
                     expert > 1 ? "  --expert-tensor-parallel-size 1\n" : "");
}

/// parallel_state.py of megatron-core: other orders require as many data-parallel ranks of experts as of
/// other layers.
void check_order(const ExportBundle& bundle) {
  const ExecutionConfig& how = bundle.job.execution;
  if (bundle.order == RankOrder::pipeline_major && stage_count(bundle) > 1 && how.expert > 1 &&
      how.expert != tensor_degree(bundle) * how.context)
    reject(target_name,
           fmt::format("ranks in pipeline-major order require an expert degree equal to tensor × "
                       "context, {} × {}, not {}; use --order stage-major",
                       tensor_degree(bundle), how.context, how.expert));
}

ExportFiles files(const ExportBundle& bundle) {
  check_order(bundle);
  const Training& training = bundle.job.training;
  const Transformer& model = model_of(bundle);
  std::string text = fmt::format(
      "# shellcheck shell=bash disable=SC2034\n"
      "# Arguments of Megatron-LM (megatron-core 0.16 or later). Source this file; ranks are {}.\n"
      "{}MEGATRON_ARGS=(\n"
      "  --tensor-model-parallel-size {}\n"
      "  --pipeline-model-parallel-size {}\n"
      "  --context-parallel-size {}\n{}"
      "  --num-layers {}\n"
      "  --pipeline-model-parallel-layout \"{}\"\n"
      "  --micro-batch-size {}\n"
      "  --global-batch-size {}\n",
      rank_order_name(bundle.order),
      tensor_degree(bundle) > 1 ? "export CUDA_DEVICE_MAX_CONNECTIONS=1  # required before Blackwell GPUs\n"
                                : "",
      tensor_degree(bundle), stage_count(bundle), bundle.job.execution.context, expert_flags(bundle),
      model.layers, format_layout(bundle),
      bundle.job.execution.micro_batch / bundle.job.execution.stage_data.value_or(1), training.global_batch);
  if (bundle.order == RankOrder::pipeline_major) text += "  --use-tp-pp-dp-mapping\n";
  text += size_flags(model);
  for (const auto& [name, value] : io::megatron_arguments(run_of(bundle))) text += argument_line(name, value);
  return {{file_name, text + first_run_flags(model, training.matmul) + ")\n"}};
}

/// The ranks of rank_table.json as a rankfile, for io::read_megatron_plan.
std::string format_ranks(const std::vector<RankRow>& rows, const ExportBundle& bundle) {
  std::string text;
  for (std::size_t rank = 0; rank < rows.size(); ++rank)
    for (std::size_t device = 0; device < bundle.locations.size(); ++device)
      if (bundle.locations[device].host == rows[rank].host && bundle.locations[device].gpu == rows[rank].gpu)
        text += fmt::format("rank {}=d{}\n", rank, device);
  return text;
}

/// Uses the importer of dtfm-plan --score for Megatron-LM flags.
ReadBack read_back(const ExportFiles& files, const ExportBundle& bundle) {
  Topology names;
  for (std::size_t i = 0; i < bundle.locations.size(); ++i)
    names.devices.emplace_back().id = fmt::format("d{}", i);
  io::InputErrors errors;
  io::DeviceResolver locations(names, errors);
  std::vector<std::string> notes;
  Job job = bundle.job;  // its tensor degree may be `auto`
  job.parallelism.tensor = tensor_degree(bundle);
  std::vector<RankRow> rows = read_table_rows(files);
  const Plan plan =
      io::read_megatron_plan({file_name, file_text(files, file_name)},
                             {rank_table_file, format_ranks(rows, bundle)}, job, locations, errors, notes);
  errors.throw_if_any();
  const io::MegatronFlags flags(file_text(files, file_name), file_name, errors);
  errors.throw_if_any();
  DTFM_ASSERT(io::megatron_differences(flags, run_of(bundle)).empty());
  const std::vector<RankAssignment> assignments = assign_ranks(plan, bundle.job, bundle.order);
  DTFM_ASSERT(assignments.size() == rows.size());
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    const GpuLocation& location = bundle.locations[at(assignments[rank].device)];
    rows[rank].host = location.host;
    rows[rank].gpu = location.gpu;
    rows[rank].assignment = assignments[rank];
    rows[rank].assignment.device = 0;
  }
  const std::string& layout = flags.text("--pipeline-model-parallel-layout");
  const int parts = 1 + static_cast<int>(std::count(layout.begin(), layout.end(), '|'));
  return {std::move(rows), micro_batch_counts(plan),
          io::megatron_settings(flags, parts / flags.number("--pipeline-model-parallel-size").value(),
                                bundle.job.execution.stage_data)};
}

std::vector<std::string> notes(const ExportBundle& bundle) {
  const Transformer& model = model_of(bundle);
  const bool has_experts = has_block(model, Mlp::experts);
  const int tensor = tensor_degree(bundle), divisor = 128 * tensor;
  std::vector<std::string> notes = {
      "the export trains on generated tokens without a tokenizer: to train on text, replace --mock-data and "
      "--tokenizer-type NullTokenizer in megatron.sh",
      fmt::format("--vocab-size is one less than the {} tokens of the plan, because NullTokenizer adds one; "
                  "Megatron-LM pads them to {}",
                  model.vocabulary, (model.vocabulary + divisor - 1) / divisor * divisor),
      "--lr 3e-4, --train-iters 20 and no evaluation (--eval-iters 0) in megatron.sh are for a first run",
      "--norm-epsilon is 1e-5, and collectives time out after 60 minutes (--distributed-timeout-minutes), in "
      "megatron.sh"};
  if (!model.learned_positions) notes.emplace_back("--rotary-base in megatron.sh is 500000, as in Llama 3");
  if (!is_llama_like(model) && model.dropout)
    notes.emplace_back("--hidden-dropout in megatron.sh is 0.1, as in GPT-2");
  const bool quantizes = bundle.job.training.matmul != MatmulFormat::precision;
  if (model.latent.kv_rank > 0 || quantizes)
    notes.push_back(fmt::format(
        "{} requires Transformer Engine",
        quantizes ? fmt::format("`matmul: {}`", name_of(bundle.job.training.matmul)) : "latent attention"));
  else
    notes.push_back(
        fmt::format("without Transformer Engine, append --transformer-impl local --no-rope-fusion "
                    "--no-persist-layer-norm --no-gradient-accumulation-fusion --no-masked-softmax-fusion{}",
                    has_experts ? ", and remove --moe-grouped-gemm" : ""));
  if (has_experts)
    notes.emplace_back(
        "the router in megatron.sh chooses experts by softmax, and --moe-aux-loss-coeff 1e-2 balances them; "
        "DeepSeek-V3 has --moe-router-score-function sigmoid and --moe-router-enable-expert-bias instead, "
        "and groups of experts, on which plans do not depend");
  if (const double imbalance = bundle.job.execution.expert_imbalance; imbalance > 1)
    notes.push_back(fmt::format(
        "the plan assumes expert_imbalance {}; megatron.sh sets no expert capacity factor", imbalance));
  if (bundle.job.execution.expert > 1 && bundle.job.execution.expert_dispatch == ExpertDispatch::hierarchical)
    notes.emplace_back(
        "DeepEP must be installed; between hosts it requires 8 GPUs of each group on every host, otherwise "
        "use "
        "--moe-flex-dispatcher-backend hybridep");
  if (model.latent.kv_rank > 0)
    notes.emplace_back(
        "--rotary-scaling-factor in megatron.sh is 1: positions are rotary without the extension to longer "
        "sequences (YaRN) that latent attention has in Megatron-LM");
  if (model.predicted_tokens > 0)
    notes.emplace_back(
        "the losses of multi-token prediction have Megatron-LM's weight 0.1 (--mtp-loss-scaling-factor)");
  if (model.predicted_tokens > 0 && bundle.job.execution.recompute_layers)
    notes.emplace_back(
        "with --recompute-method block, Megatron-LM does not recompute the modules for multi-token "
        "prediction");
  if (model.kv_heads > 0 && model.kv_heads < tensor)
    notes.push_back(
        fmt::format("{} key-value heads are replicated on {} GPUs, which requires megatron-core "
                    "0.16 or later",
                    model.kv_heads, tensor));
  if (bundle.job.execution.overlap && stage_count(bundle) > 1)
    notes.emplace_back(
        "Megatron-LM synchronizes gradients during the backward pass only for the first chunk of the first "
        "stage; all others begin after their last backward pass, later than planned");
  return notes;
}

}  // namespace
}  // namespace megatron

Exporter megatron_exporter() {
  using namespace megatron;
  return {.name = target_name,
          .what = "Megatron-LM (megatron-core 0.16 or later): complete arguments of pretrain_gpt.py",
          .is_trainer = true,
          .target = Target::megatron,
          .orders = traits(Target::megatron).orders,
          .evidence = Evidence::accepted,
          .version = "megatron-core 0.16.1; flags of Megatron-LM of August 2026",
          .settings = exported,
          .files = files,
          .read_back = read_back,
          .usage =
              "Needs a launcher: `--to megatron,torchrun` (or slurm, openmpi). On every machine, in the "
              "folder of "
              "Megatron-LM, with\n"
              "this folder as `$EXPORT`: `source $EXPORT/megatron.sh`, then `$EXPORT/torchrun.sh MACHINE "
              "pretrain_gpt.py\n"
              "\"${MEGATRON_ARGS[@]}\"`.",
          .notes = notes};
}

}  // namespace dtfm::exporter
