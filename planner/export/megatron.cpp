// Megatron-LM: flags of pretrain_gpt.py and similar programs, with the pipeline layout.
#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/virtual_stages.hpp"
#include "planner/export/export_requirements.hpp"
#include "planner/export/trainer_rank_mapping.hpp"
#include "core/io/importers/megatron_plan.hpp"

namespace dtfm::exporter {
namespace megatron {
namespace {

constexpr const char* file_name = "megatron.sh";
constexpr std::string_view target_name = "megatron";
constexpr std::string_view sharding_flag = "--use-distributed-optimizer";

/// The pipeline layout, such as Ettt|tt|ttL; with virtual stages: chunk 0 of each stage, then chunk 1, …
std::string format_layout(const ExportBundle& bundle) {
  std::string layout = "E";
  const char* separator = "";
  for (const auto& [begin, end] : virtual_stages(bundle)) {
    layout += separator;
    layout.append(at(end - begin), 't');
    separator = "|";
  }
  return layout + "L";
}

/// Model flags of pretrain_gpt.py (BERT: pretrain_bert.py).
std::string model_flags(const Transformer& model) {
  std::string flags = fmt::format(
      "  --hidden-size {}\n  --num-attention-heads {}\n  --seq-length {}\n"
      "  --max-position-embeddings {}\n",
      model.hidden, model.heads, model.sequence, model.positions > 0 ? model.positions : model.sequence);
  if (model.feed_forward > 0) flags += fmt::format("  --ffn-hidden-size {}\n", model.feed_forward);
  if (model.kv_heads > 0 && model.kv_heads != model.heads)
    flags += fmt::format("  --group-query-attention\n  --num-query-groups {}\n", model.kv_heads);
  if (model.gated) flags += "  --swiglu\n";
  if (model.rms_norm) flags += "  --normalization RMSNorm\n";
  if (!model.learned_positions) flags += "  --position-embedding-type rope\n";
  if (!model.biases) flags += "  --disable-bias-linear\n";
  if (!model.tied) flags += "  --untie-embeddings-and-output-weights\n";
  return flags;
}

std::string training_flags(const Job& job) {
  std::string flags;
  if (job.training.precision == Precision::fp16) flags += "  --fp16\n";
  if (job.training.precision == Precision::bf16) flags += "  --bf16\n";
  if (job.execution.optimizer_sharding == OptimizerSharding::zero1)
    flags += fmt::format("  {}\n", sharding_flag);
  if (job.execution.recomputation == Recomputation::selective)
    flags += "  --recompute-granularity selective\n";
  if (job.execution.recomputation == Recomputation::full)
    flags += "  --recompute-granularity full\n  --recompute-method uniform\n  --recompute-num-layers 1\n";
  return flags;
}

ExportFiles files(const ExportBundle& bundle) {
  const Training& training = bundle.job.training;
  std::string text = fmt::format(
      "# shellcheck shell=bash disable=SC2034\n"
      "# Arguments of Megatron-LM (megatron-core 0.14 or later). Source this file; ranks are {}.\n"
      "{}MEGATRON_ARGS=(\n"
      "  --tensor-model-parallel-size {}\n"
      "  --pipeline-model-parallel-size {}\n"
      "  --context-parallel-size 1\n"
      "  --num-layers {}\n"
      "  --pipeline-model-parallel-layout \"{}\"\n"
      "  --micro-batch-size {}\n"
      "  --global-batch-size {}\n",
      rank_order_name(bundle.order),
      tensor_degree(bundle) > 1 ? "export CUDA_DEVICE_MAX_CONNECTIONS=1  # required before Blackwell GPUs\n"
                                : "",
      tensor_degree(bundle), stage_count(bundle), layer_count(bundle.job.model), format_layout(bundle),
      bundle.job.execution.micro_batch, training.global_batch);
  if (tensor_degree(bundle) > 1 && bundle.job.parallelism.sequence_parallel)
    text += "  --sequence-parallel\n";
  if (bundle.order == RankOrder::pipeline_major) text += "  --use-tp-pp-dp-mapping\n";
  text += model_flags(std::get<Transformer>(bundle.job.model)) + training_flags(bundle.job) + ")\n";
  return {{file_name, text}};
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
  DTFM_ASSERT((file_text(files, file_name).find(sharding_flag) != std::string::npos) ==
              (bundle.job.execution.optimizer_sharding == OptimizerSharding::zero1));
  const std::vector<RankAssignment> assignments = assign_ranks(plan, bundle.job, bundle.order);
  DTFM_ASSERT(assignments.size() == rows.size());
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    const GpuLocation& location = bundle.locations[at(assignments[rank].device)];
    rows[rank].host = location.host;
    rows[rank].gpu = location.gpu;
    rows[rank].assignment = assignments[rank];
    rows[rank].assignment.device = 0;
  }
  return {std::move(rows), micro_batch_counts(plan)};
}

std::vector<std::string> notes(const ExportBundle&) {
  return {"over slow links, --distributed-timeout-minutes may have to exceed its default of 10"};
}

}  // namespace
}  // namespace megatron

Exporter megatron_exporter() {
  using namespace megatron;
  return {.name = target_name,
          .what = "Megatron-LM (megatron-core 0.14 or later): flags, with the pipeline layout",
          .is_trainer = true,
          .target = Target::megatron,
          .orders = traits(Target::megatron).orders,
          .files = files,
          .read_back = read_back,
          .usage =
              "Run `source megatron.sh`; the program is `pretrain_gpt.py \"${MEGATRON_ARGS[@]}\"` with "
              "your flags for data,\n"
              "tokenizer and learning rate.",
          .notes = notes};
}

}  // namespace dtfm::exporter
