#include "core/plan/target.hpp"

#include <algorithm>
#include <array>
#include <variant>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/kind_table.hpp"
#include "core/plan/job.hpp"
#include "core/schedule/schedule.hpp"

namespace dtfm {
namespace {

// docs/targets.md says which of these facts were read in sources, and which are assumed.

// python/dtfm_runtime: pipeline.py, sync.py.
constexpr std::array pytorch_schedules = {Schedule::one_f_one_b,          Schedule::gpipe,
                                          Schedule::eager_one_f_one_b,    Schedule::interleaved,
                                          Schedule::zero_bubble_h1,       Schedule::one_f_one_b_blocking,
                                          Schedule::interleaved_blocking, Schedule::zero_bubble_greedy};
constexpr std::array pytorch_syncs = [] {  // all, a ring first
  std::array all = {
#define DTFM_COLLECTIVE(name, ...) GradientSync::name,
#include "core/collectives/collectives.def"
#undef DTFM_COLLECTIVE
  };
  const auto ring = std::find(all.begin(), all.end(), GradientSync::ring);
  std::rotate(all.begin(), ring, ring + 1);
  return all;
}();
constexpr std::array only_8_bit = {CompressionMethod::quantize_8_bit};

// When their devices receive and send: core/schedule/messaging.cpp.
constexpr std::array megatron_schedules = {Schedule::one_f_one_b_blocking, Schedule::interleaved};
// 1f1b is not listed: it becomes 1f1b-blocking, which is PyTorch's Schedule1F1B.
constexpr std::array torchtitan_schedules = {Schedule::one_f_one_b_blocking, Schedule::gpipe,
                                             Schedule::interleaved,          Schedule::zero_bubble_h1,
                                             Schedule::eager_one_f_one_b,    Schedule::zero_bubble_greedy};
constexpr std::array pipelining_schedules = {Schedule::one_f_one_b,       Schedule::gpipe,
                                             Schedule::interleaved,       Schedule::zero_bubble_h1,
                                             Schedule::eager_one_f_one_b, Schedule::one_f_one_b_blocking,
                                             Schedule::zero_bubble_greedy};
constexpr std::array blocking_1f1b = {Schedule::one_f_one_b_blocking};
constexpr std::array only_gpipe = {Schedule::gpipe};

// In fp16, its program would need a loss scale that all ranks agree on.
constexpr std::array dtfm_precisions = {Precision::fp16, Precision::fp32};  // --fp16, or not
constexpr std::array pipelining_precisions = {Precision::bf16, Precision::tf32, Precision::fp32};
constexpr std::array megatron_precisions = {Precision::tf32, Precision::bf16, Precision::fp16};
// --fp8-format with --fp8-recipe, --fp4-format.
constexpr std::array megatron_matmul_formats = {MatmulFormat::precision, MatmulFormat::fp8,
                                                MatmulFormat::fp8_blockwise, MatmulFormat::mxfp8,
                                                MatmulFormat::nvfp4};
constexpr std::array torchtitan_precisions = {Precision::bf16, Precision::tf32, Precision::fp32};

// NCCL's rings follow the ranks of a group, host by host. DT-FM: data_parallel/dist_dp_utils.py.
constexpr std::array only_ring = {GradientSync::ring};
// Megatron-LM and FSDP2 also run several instances of a sharded optimizer. Megatron-LM:
// --num-distributed-optimizer-instances (parallel_state.py); FSDP2: a two-dimensional mesh, in torchtitan
// data_parallel_replicate_degree × data_parallel_shard_degree.
constexpr std::array rings = {GradientSync::ring, GradientSync::hierarchical_ring};
constexpr std::array dtfm_syncs = {GradientSync::ring, GradientSync::sharded_ps, GradientSync::central_ps};

constexpr std::array only_stage_major = {RankOrder::stage_major};
constexpr std::array only_pipeline_major = {RankOrder::pipeline_major};
constexpr std::array stage_major_first = {RankOrder::stage_major, RankOrder::pipeline_major};

constexpr std::array all_recomputations = {Recomputation::none, Recomputation::moe_act,
                                           Recomputation::selective, Recomputation::mlp, Recomputation::full};
constexpr std::array of_modules = {Recomputation::none, Recomputation::mlp, Recomputation::full,
                                   Recomputation::as_needed};
constexpr std::array of_layers = {Recomputation::none, Recomputation::full, Recomputation::as_needed,
                                  Recomputation::offload};
constexpr std::array none_or_full = {Recomputation::none, Recomputation::full};
constexpr std::array only_full = {Recomputation::full};

// Megatron-LM: --use-distributed-optimizer. torch.distributed.pipelining with FSDP2
// (PipelineStage.backward_maybe_with_nosync): parameters that stay gathered from the first micro-batch to the
// last one, and one reduce-scatter after it. DeepSpeed's pipelines: zero_optimization.stage below 2 (0.19,
// runtime/pipe/engine.py); in bf16, stage 0 runs BF16_Optimizer, which partitions, too (runtime/engine.py,
// _do_optimizer_sanity_check; runtime/bf16_optimizer.py).
constexpr std::array no_sharding = {OptimizerSharding::none};
// torchtitan without pipelines gathers parameters before each pass (fsdp_reshard_after_forward "always").
constexpr std::array torchtitan_shardings = {OptimizerSharding::none, OptimizerSharding::zero1,
                                             OptimizerSharding::zero3};
constexpr std::array none_or_zero1 = {OptimizerSharding::none, OptimizerSharding::zero1};

constexpr std::array megatron_context_exchanges = {ContextExchange::ring, ContextExchange::all_gather,
                                                   ContextExchange::all_to_all};
constexpr std::array megatron_dispatches = {ExpertDispatch::flat, ExpertDispatch::hierarchical};

/// Assertions of Transformer Engine (attn_forward_func_with_cp), from memory: it is not installed in tests.
std::string_view transformer_engine_obstacle(const Transformer& model, ContextExchange exchange) {
  if (model.latent.kv_rank > 0 && exchange != ContextExchange::ring)
    return "latent attention requires context_exchange ring";
  if (has_block(model, Mixer::window_attention) && exchange == ContextExchange::ring)
    return "sliding windows require context_exchange all-gather or all-to-all";
  if (model.attention_sinks && exchange != ContextExchange::all_to_all)
    return "attention sinks require context_exchange all-to-all";
  return "";
}

// core/models/gpt/gpt_layer_specs.py of megatron-core 0.16.1. Its gated delta nets and gates of attention are
// experimental.
constexpr std::array megatron_features = {ModelFeature::latent_attention, ModelFeature::experts,
                                          ModelFeature::block_kinds,      ModelFeature::window,
                                          ModelFeature::prediction,       ModelFeature::attention_sinks,
                                          ModelFeature::qkv_biases};

struct ModelObstacle {
  std::string_view name;  // in "the model has …"
  bool (*is_in)(const Transformer&);
};

bool has_window(const Transformer& model) {
  return has_block(model, Mixer::window_attention);
}

/// Combinations of features that Megatron-LM does not support; docs/targets.md has the sources.
constexpr ModelObstacle megatron_obstacles[] = {
    {"latent attention with biases",
     [](const Transformer& it) { return it.latent.kv_rank > 0 && bias_pattern(it) != BiasPattern::none; }},
    {"latent attention with windows",
     [](const Transformer& it) { return it.latent.kv_rank > 0 && has_window(it); }},
    {"latent attention with sinks",
     [](const Transformer& it) { return it.latent.kv_rank > 0 && it.attention_sinks; }},
    {"shared experts without biases among matrices with biases",
     [](const Transformer& it) {
       return has_block(it, Mlp::experts) && it.experts.shared_width > 0 &&
              bias_pattern(it) == BiasPattern::all;
     }},
    {"multi-token prediction with tied embeddings",
     [](const Transformer& it) { return it.predicted_tokens > 0 && it.tied; }},
    {"multi-token prediction with learned positions",
     [](const Transformer& it) { return it.predicted_tokens > 0 && it.learned_positions; }},
    {"multi-token prediction with windows in some blocks",
     [](const Transformer& it) {
       return it.predicted_tokens > 0 && has_window(it) && has_block(it, Mixer::attention);
     }},
};

std::string_view megatron_obstacle(const Transformer& model) {
  for (const ModelObstacle& it : megatron_obstacles)
    if (it.is_in(model)) return it.name;
  return "";
}

// python/dtfm_runtime/model.py.
constexpr std::array runtime_features = {ModelFeature::experts};

std::string_view runtime_obstacle(const Transformer& model) {
  const Experts& experts = model.experts;
  if (experts.biases || experts.router_bias) return "experts or a router with biases";
  return experts.shared_gate ? "gated shared experts" : "";
}

/// 20 bytes per parameter in fp16, 18 in bf16 with fp32 gradients (docs/user-guide/features/
/// dist_optimizer.md).
Optimizer megatron_adam(Optimizer optimizer, Precision precision) {
  if (optimizer == Optimizer::adam_offload && precision == Precision::bf16) return optimizer;
  switch (precision) {
    case Precision::fp16:
      return Optimizer::adam_20;
    case Precision::bf16:
      return Optimizer::adam_18;
    case Precision::tf32:
    case Precision::fp32:
      break;
  }
  return Optimizer::adam_16;
}

/// Weights, gradients and moments in fp32, and in bf16 a copy of the weights to compute with.
Optimizer torchtitan_adam(Optimizer, Precision precision) {
  return precision == Precision::bf16 ? Optimizer::adam_18 : Optimizer::adam_16;
}

/// Adam as torchtitan's. SGD updates fp32 weights with fp32 copies of the gradients.
Optimizer pipelining_optimizer(Optimizer optimizer, Precision precision) {
  if (!traits(optimizer).is_sgd) return torchtitan_adam(optimizer, precision);
  return precision == Precision::bf16 ? Optimizer::sgd_12 : optimizer;
}

/// The accounting of ZeRO, with gradients in the precision of the training.
Optimizer runtime_optimizer(Optimizer optimizer, Precision) {
  const bool is_run = traits(optimizer).is_sgd || optimizer == Optimizer::host_offload;
  return is_run ? optimizer : Optimizer::adam_16;
}

/// As the runtime's: zero/stage_1_and_2.py, as `grad_accum_dtype` is by default that of the model; in fp16 it
/// must be.
Optimizer deepspeed_optimizer(Optimizer optimizer, Precision precision) {
  if (!traits(optimizer).is_sgd) return Optimizer::adam_16;
  return precision == Precision::fp16 ? Optimizer::sgd_8 : optimizer;
}

/// SGD with the fp32 copy of the weights on the host (utils/dist_args_utils.py: --use-offload).
Optimizer dtfm_optimizer(Optimizer, Precision) {
  return Optimizer::host_offload;
}

constexpr auto targets = std::to_array<TargetTraits>({
    {.kind = Target::pytorch,
     .name = "pytorch",
     .schedules = pytorch_schedules,
     .gradient_syncs = pytorch_syncs,
     .recomputations = of_layers,
     .orders = stage_major_first,
     .optimizer_shardings = none_or_zero1,
     .compressions = only_8_bit,
     .optimizer = runtime_optimizer,
     .transformers_only = false,
     .encoders = false,
     .uniform_pipelines = false,
     .tensor_parallelism = false,
     .flushes = FlushSupport::any,
     .overlap = true,
     .tied_embedding_sync = true,
     .iteration_barrier = false,
     .nccl_chooses_all_reduce = false},
    {.kind = Target::megatron,
     .name = "megatron",
     .schedules = megatron_schedules,
     .gradient_syncs = rings,
     .recomputations = all_recomputations,
     .recompute_layers = true,
     .orders = stage_major_first,
     .optimizer_shardings = none_or_zero1,
     .precisions = megatron_precisions,
     .matmul_formats = megatron_matmul_formats,
     .optimizer = megatron_adam,
     .messaging = Messaging::megatron,
     .cuts = LayerCuts::any,
     .min_interleaved_stages = 2,
     .features = megatron_features,
     .model_obstacle = megatron_obstacle,
     .encoders = false,
     .flash_in_16_bits = true,
     .context_parallelism = true,
     .expert_parallelism = true,
     .context_exchanges = megatron_context_exchanges,
     .context_obstacle = transformer_engine_obstacle,
     .expert_dispatches = megatron_dispatches,
     .tensor_division = TensorDivision::widths,
     .overlap = true,
     .tied_embedding_sync = true},
    {.kind = Target::torchtitan,
     .name = "torchtitan",
     .schedules = torchtitan_schedules,
     .gradient_syncs = rings,
     .recomputations = none_or_full,
     .orders = only_stage_major,
     .optimizer_shardings = torchtitan_shardings,
     .precisions = torchtitan_precisions,
     .optimizer = torchtitan_adam,
     .messaging = Messaging::torch,
     .min_interleaved_stages = 2,
     .encoders = false,
     .llama_only = true,
     .tied_pipelines = false,
     .filled_1f1b = true,
     .split_recompute = false,
     .tensor_division = TensorDivision::widths_and_kv_heads,
     .sequence_parallel = true},
    {.kind = Target::deepspeed,
     .name = "deepspeed",
     .schedules = blocking_1f1b,
     .gradient_syncs = only_ring,
     .recomputations = none_or_full,
     .orders = only_stage_major,
     .optimizer_shardings = none_or_zero1,
     .optimizer = deepspeed_optimizer,
     .shards_bf16 = true,
     .messaging = Messaging::deepspeed,
     .encoders = false,
     .tensor_parallelism = false,
     .tied_embedding_sync = true},
    {.kind = Target::pytorch_pipelining,
     .name = "pytorch-pipelining",
     .schedules = pipelining_schedules,
     .gradient_syncs = rings,
     .recomputations = of_modules,
     .recompute_layers = true,
     .orders = only_stage_major,
     .optimizer_shardings = none_or_zero1,
     .precisions = pipelining_precisions,
     .optimizer = pipelining_optimizer,
     .messaging = Messaging::torch,
     .min_interleaved_stages = 2,  // FSDP2 cannot shard an embedding that two stages of a rank share
     .features = runtime_features,
     .model_obstacle = runtime_obstacle,
     .encoders = false,
     .filled_1f1b = true,
     .split_recompute = false,
     .tensor_parallelism = false,
     .context_parallelism = true,
     .flushes = FlushSupport::equal_rounds,
     .tied_embedding_sync = true,
     .iteration_barrier = false},
    {.kind = Target::dtfm,
     .name = "dtfm",
     .schedules = only_gpipe,
     .gradient_syncs = dtfm_syncs,
     .recomputations = only_full,
     .orders = only_pipeline_major,
     .optimizer_shardings = no_sharding,
     .precisions = dtfm_precisions,
     .optimizer = dtfm_optimizer,
     .min_stages = 2,
     .encoders = false,
     .tensor_parallelism = false,
     .flushes = FlushSupport::equal_rounds},
});
static_assert(has_row_for_each(targets, Target::dtfm));

// A row can be deleted one release after the removal.
constexpr RemovedTarget removed[] = {
    {"flashflex", "flashflex was removed; use pytorch, which also runs heterogeneous pipelines"},
    {"varuna", "varuna was removed; use pytorch, megatron or deepspeed"},
    {"petals",
     "petals takes plans that are made without a target, because it only fine-tunes; plan without one, "
     "and use dtfm-export --to petals"},
};

/// Names of one release ago.
constexpr RenamedTarget renamed[] = {{"torchtitan-py", Target::torchtitan},
                                     {"deepspeed-py", Target::deepspeed}};

}  // namespace

std::span<const TargetTraits> target_table() {
  return targets;
}

const TargetTraits& traits(Target target) {
  return row_of(targets, target);
}

std::string_view name_of(Target target) {
  return traits(target).name;
}

std::span<const RemovedTarget> removed_targets() {
  return removed;
}

std::span<const RenamedTarget> renamed_targets() {
  return renamed;
}

std::string_view current_name(std::string_view name) {
  for (const RenamedTarget& it : renamed)
    if (it.name == name) return name_of(it.kind);
  return name;
}

std::string_view rank_order_name(RankOrder order) {
  return order == RankOrder::stage_major ? "stage-major" : "pipeline-major";
}

Schedule first_schedule(const Job& job) {
  const Schedule first = job.target ? traits(*job.target).schedules.front() : Schedule::one_f_one_b;
  const auto list = job.listed.find(Setting::schedule);
  if (list == job.listed.end() || is_among(list->second, name_of(first))) return first;
  for (const ScheduleTraits& it : schedule_table())
    if (!it.has_chunks && is_among(list->second, it.name)) return it.kind;
  return kind_named(schedule_table(), std::get<std::string_view>(list->second.front())).value();
}

int min_stages(const Job& job) {
  if (!job.target) return 1;
  const TargetTraits& target = traits(*job.target);
  return traits(job.execution.schedule).has_chunks
             ? std::max(target.min_stages, target.min_interleaved_stages)
             : target.min_stages;
}

bool can_have_stages(const Job& job, int stages, int micro_batches) {
  if (!can_split(job)) return false;
  if (!job.target || stages == 1) return true;
  const TargetTraits& target = traits(*job.target);
  const auto* transformer = std::get_if<Transformer>(&job.model);
  if (!target.tied_pipelines && transformer && transformer->tied) return false;
  return !target.filled_1f1b || job.execution.schedule != Schedule::one_f_one_b_blocking ||
         std::min(micro_batches, job.execution.flush.value_or(micro_batches)) >= stages;
}

bool can_split(const ExecutionConfig& execution) {
  return !traits(execution.schedule).splits_backward || !traits(execution.recomputation).offloads;
}

bool can_split(const TargetTraits& target, const ExecutionConfig& execution) {
  if (!can_split(execution)) return false;
  return target.split_recompute || !traits(execution.schedule).splits_backward ||
         execution.recomputation == Recomputation::none;
}

bool can_split(const Job& job) {
  return job.target ? can_split(traits(*job.target), job.execution) : can_split(job.execution);
}

bool may_flush(const Job& job) {
  return !job.target || traits(*job.target).flushes != FlushSupport::never;
}

/// Assumed (Transformer Engine was not read): it quantizes only matrices whose widths are multiples of 16, or
/// with mxfp8 of 32, the numbers that share a scale.
std::string quantization_obstacle(const Job& job, int tensor) {
  const auto* model = std::get_if<Transformer>(&job.model);
  if (model == nullptr || job.training.matmul == MatmulFormat::precision) return "";
  const int multiple = job.training.matmul == MatmulFormat::mxfp8 ? 32 : 16;
  const auto obstacle = [&](std::string_view what, long long width, int devices) {
    return width % (multiple * devices) == 0
               ? std::string()
               : fmt::format("{} {} is not a multiple of {}, as {}{} requires", what, width,
                             multiple * devices, name_of(job.training.matmul),
                             devices > 1 ? fmt::format(" with tp={}", devices) : "");
  };
  const bool attends = has_block(*model, Mixer::attention) || has_block(*model, Mixer::window_attention);
  std::vector<std::string> found = {obstacle("hidden", model->hidden, 1)};
  if (attends && model->latent.kv_rank == 0) {
    const long long width = head_width(*model);
    found.push_back(obstacle("heads × head_dim", model->heads * width, tensor));
    found.push_back(obstacle("kv_heads × head_dim", kv_head_count(*model) * width, 1));
  }
  if (attends && model->latent.kv_rank > 0)
    for (const auto& [what, width] : {std::pair("latent_attention.kv_rank", model->latent.kv_rank),
                                      std::pair("latent_attention.query_rank", model->latent.query_rank)})
      found.push_back(obstacle(what, width, 1));
  if (has_block(*model, Mlp::dense)) found.push_back(obstacle("feed_forward", mlp_width(*model), tensor));
  if (has_block(*model, Mlp::experts)) {
    found.push_back(obstacle("experts.width", model->experts.width, job.execution.expert > 1 ? 1 : tensor));
    found.push_back(obstacle("experts.shared_width", model->experts.shared_width, tensor));
  }
  const auto first =
      std::find_if(found.begin(), found.end(), [](const std::string& it) { return !it.empty(); });
  return first == found.end() ? "" : *first;
}

std::string context_obstacle(const TargetTraits& target, const Job& job) {
  const auto* model = std::get_if<Transformer>(&job.model);
  if (model == nullptr || job.execution.context == 1 || target.context_obstacle == nullptr) return "";
  return std::string(target.context_obstacle(*model, job.execution.context_exchange));
}

std::string tensor_obstacle(const TargetTraits& target, const Job& job, int tensor) {
  const auto* model = std::get_if<Transformer>(&job.model);
  if (model == nullptr || tensor == 1) return "";
  if (model->heads % tensor != 0)
    return fmt::format("{} heads are not a multiple of tp={}", model->heads, tensor);
  if (target.tensor_division == TensorDivision::heads) return "";
  if (std::string obstacle = quantization_obstacle(job, tensor); !obstacle.empty()) return obstacle;
  const int kv_heads = model->latent.kv_rank > 0 ? model->heads : kv_head_count(*model);
  const bool replicates = target.tensor_division == TensorDivision::widths;
  if (kv_heads % tensor != 0 && (!replicates || tensor % kv_heads != 0))
    return fmt::format("{} key-value heads are not a multiple{} of tp={}", kv_heads,
                       replicates ? " or divisor" : "", tensor);
  if (const int width = mlp_width(*model); has_block(*model, Mlp::dense) && width % tensor != 0)
    return fmt::format("feed_forward {} is not a multiple of tp={}", width, tensor);
  const bool sequence_parallel = target.sequence_parallel.value_or(job.parallelism.sequence_parallel);
  if (has_block(*model, Mlp::experts)) {
    const Experts& experts = model->experts;
    const bool are_divided = job.execution.expert == 1;  // by tp
    for (const int width : {are_divided ? experts.width : 0, experts.shared_width})
      if (width % tensor != 0)
        return fmt::format("experts of width {} are not a multiple of tp={}", width, tensor);
    if (experts.biases && are_divided)
      return fmt::format("experts with biases cannot be divided by tp={}", tensor);
    if (!sequence_parallel)
      return fmt::format("experts with tp={} require `sequence_parallel: true`", tensor);
  }
  if (sequence_parallel && model->sequence % tensor != 0)
    return fmt::format("sequence {} is not a multiple of tp={}, as sequence_parallel requires",
                       model->sequence, tensor);
  return "";
}

bool can_synchronize(const Job& job) {
  return !job.target || !traits(*job.target).nccl_chooses_all_reduce ||
         !traits(job.execution.gradient_sync).has_instances ||
         traits(job.execution.optimizer_sharding).optimizer;
}

bool requires_single_devices(const Job& job) {
  return traits(job.execution.optimizer_sharding).gradients;
}

}  // namespace dtfm
