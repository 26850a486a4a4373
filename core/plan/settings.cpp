#include "core/plan/settings.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/kind_table.hpp"
#include "core/plan/compression.hpp"
#include "core/plan/stage_mesh.hpp"
#include "core/plan/target.hpp"

namespace dtfm {
namespace {

constexpr std::array section_names = {std::string_view("training"), std::string_view("parallelism"),
                                      std::string_view("compression")};
constexpr std::array type_names = {std::string_view("flag"),   std::string_view("count"),
                                   std::string_view("factor"), std::string_view("name"),
                                   std::string_view("ratio"),  std::string_view("rate")};

// The parts of jobs that hold settings. `AnyJob` is Job or const Job.

template <class Owner, class AnyJob>
auto& part_of(AnyJob& job) {
  if constexpr (std::is_same_v<Owner, Training>)
    return job.training;
  else if constexpr (std::is_same_v<Owner, Parallelism>)
    return job.parallelism;
  else if constexpr (std::is_same_v<Owner, ExecutionConfig>)
    return job.execution;
  else
    return job.execution.compression;
}

template <class Owner>
const Owner& part_of_plan(const ExecutionConfig& execution) {
  if constexpr (std::is_same_v<Owner, ExecutionConfig>)
    return execution;
  else
    return execution.compression;
}

template <class Owner>
constexpr bool is_in_plans = std::is_same_v<Owner, ExecutionConfig> || std::is_same_v<Owner, Compression>;

auto table_of(Schedule) {
  return schedule_table();
}
auto table_of(GradientSync) {
  return gradient_sync_table();
}
auto table_of(OptimizerSharding) {
  return optimizer_sharding_table();
}
auto table_of(Recomputation) {
  return recomputation_table();
}
auto table_of(ContextExchange) {
  return context_exchange_table();
}
auto table_of(ExpertDispatch) {
  return expert_dispatch_table();
}
auto table_of(Messaging) {
  return messaging_table();
}
auto table_of(Precision) {
  return precision_table();
}
auto table_of(MatmulFormat) {
  return matmul_format_table();
}
auto table_of(Optimizer) {
  return optimizer_table();
}

// Members as values and back.

template <class Member>
SettingValue to_value(const Member& member) {
  if constexpr (std::is_enum_v<Member>)
    return name_of(member);
  else
    return member;
}

template <class Member>
SettingValue to_value(const std::optional<Member>& member) {
  return member ? to_value(*member) : SettingValue();
}

template <class Member>
void assign(Member& member, const SettingValue& value) {
  if constexpr (std::is_enum_v<Member>)
    member = kind_named(table_of(Member()), std::get<std::string_view>(value)).value();
  else
    member = std::get<Member>(value);
}

template <class Member>
void assign(std::optional<Member>& member, const SettingValue& value) {
  member.reset();
  if (!is_none(value)) assign(member.emplace(), value);
}

template <class Kind>
std::vector<std::string_view> names_of() {
  return names_in_jobs(table_of(Kind()));
}

template <class Kind>
std::vector<std::string_view> candidates_of() {
  std::vector<std::string_view> names;
  for (const auto& row : table_of(Kind())) {
    if constexpr (requires { row.is_candidate; })
      if (!row.is_candidate) continue;
    names.push_back(row.name);
  }
  return names;
}

constexpr SettingType type_of(bool) {
  return SettingType::flag;
}
constexpr SettingType type_of(int) {
  return SettingType::count;
}
constexpr SettingType type_of(double) {
  return SettingType::factor;
}
constexpr SettingType type_of(std::optional<int>) {
  return SettingType::count;
}
constexpr SettingType type_of(std::optional<BitsPerSecond>) {
  return SettingType::rate;
}
template <class Kind>
constexpr SettingType type_of(Kind) {
  return SettingType::name;
}

/// The row of the setting that `member` holds.
template <auto member, class Owner, class Member>
constexpr SettingTraits of(Member Owner::*, SettingTraits row) {
  row.type = type_of(Member());
  if constexpr (std::is_enum_v<Member>) {
    row.names = names_of<Member>;
    row.candidates = candidates_of<Member>;
  }
  row.get = [](const Job& job) { return to_value(part_of<Owner>(job).*member); };
  if constexpr (is_in_plans<Owner>)
    row.get_in_plan = [](const ExecutionConfig& it) { return to_value(part_of_plan<Owner>(it).*member); };
  row.set = [](Job& job, const SettingValue& value) { assign(part_of<Owner>(job).*member, value); };
  return row;
}

template <auto member>
constexpr SettingTraits of(SettingTraits row) {
  return of<member>(member, row);
}

/// The row of a ratio and of the preset that defines it.
template <double Compression::*ratio, std::optional<CompressionPreset> Compression::*preset>
constexpr SettingTraits of(SettingTraits row) {
  row.type = SettingType::ratio;
  row.get = [](const Job& job) -> SettingValue {
    return CompressionRatio{job.execution.compression.*ratio, job.execution.compression.*preset};
  };
  row.get_in_plan = [](const ExecutionConfig& it) -> SettingValue {
    return CompressionRatio{it.compression.*ratio, it.compression.*preset};
  };
  row.set = [](Job& job, const SettingValue& value) {
    const auto& given = std::get<CompressionRatio>(value);
    job.execution.compression.*ratio = given.ratio;
    job.execution.compression.*preset = given.preset;
  };
  return row;
}

/// Of each degree inside a stage, so that their product is a number: as many as the devices of a topology.
constexpr int max_stage_parts = 8192;

// What targets run.

using Values = std::vector<SettingValue>;

template <class Kind>
Values values_of(std::span<const Kind> kinds) {
  Values values;
  for (const Kind it : kinds) values.emplace_back(name_of(it));
  return values;
}

template <auto kinds>
Values run_kinds(const TargetTraits& target, const Job&) {
  return values_of(target.*kinds);
}

Values run_any(const TargetTraits&, const Job&) {
  return {};
}

/// Without experts there is nothing of moe_act to recompute; of chains, MLPs are not known.
void erase_without_effect(const Job& job, Values& recomputations) {
  if (expert_count(job.model) == 0) std::erase(recomputations, SettingValue(name_of(Recomputation::moe_act)));
  if (std::holds_alternative<LayerChain>(job.model))
    std::erase(recomputations, SettingValue(name_of(Recomputation::mlp)));
}

Values run_recomputations(const TargetTraits& target, const Job& job) {
  Values values = values_of(target.recomputations);
  erase_without_effect(job, values);
  return values;
}

Values run_schedules(const TargetTraits& target, const Job& job) {
  Values values;
  for (const Schedule it : target.schedules) {
    ExecutionConfig execution = job.execution;
    execution.schedule = it;
    if (job.automatic[Setting::recompute] || can_split(target, execution)) values.emplace_back(name_of(it));
  }
  return values;
}

Values run_matmul_formats(const TargetTraits& target, const Job& job) {
  if (traits(job.training.precision).bytes_per_element > 2) return values_of<MatmulFormat>(plain_products);
  return values_of(target.matmul_formats);
}

Values run_recompute_layers(const TargetTraits& target, const Job&) {
  return target.recompute_layers ? Values() : Values{SettingValue()};
}

Values run_optimizers(const TargetTraits& target, const Job& job) {
  return {name_of(target.optimizer(job.training.optimizer, job.training.precision))};
}

/// NCCL-based trainers support instances only with a sharded optimizer (can_synchronize).
Values run_gradient_syncs(const TargetTraits& target, const Job& job) {
  const bool may_shard = job.automatic[Setting::optimizer_sharding] ||
                         job.execution.optimizer_sharding == OptimizerSharding::zero1;
  Values values;
  for (const GradientSync it : target.gradient_syncs)
    if (may_shard || !target.nccl_chooses_all_reduce || !traits(it).has_instances)
      values.emplace_back(name_of(it));
  return values;
}

Values run_optimizer_shardings(const TargetTraits& target, const Job& job) {
  const bool has_instances =
      !job.automatic[Setting::gradient_sync] && traits(job.execution.gradient_sync).has_instances;
  if (target.nccl_chooses_all_reduce && has_instances) return {name_of(OptimizerSharding::zero1)};
  const Optimizer optimizer = target.optimizer(job.training.optimizer, job.training.precision);
  if ((target.shards_bf16 && job.training.precision == Precision::bf16) ||
      traits(optimizer).host_link_bytes > 0)  // --optimizer-cpu-offload requires zero1
    return {name_of(OptimizerSharding::zero1)};
  return values_of(target.optimizer_shardings);
}

Values run_tensor_degrees(const TargetTraits& target, const Job&) {
  return target.tensor_parallelism ? Values() : Values{1};
}

Values run_expert_parallelism(const TargetTraits& target, const Job&) {
  return target.expert_parallelism ? Values() : Values{1};
}

Values run_expert_imbalance(const TargetTraits& target, const Job&) {
  return target.expert_parallelism ? Values() : Values{1.0};
}

Values run_context_parallelism(const TargetTraits& target, const Job&) {
  return target.context_parallelism ? Values() : Values{1};
}

Values run_stage_data(const TargetTraits& target, const Job&) {
  return target.expert_parallelism ? Values() : Values{SettingValue()};
}

Values run_flushes(const TargetTraits& target, const Job&) {
  return target.flushes == FlushSupport::never ? Values{SettingValue()} : Values();
}

Values run_overlaps(const TargetTraits& target, const Job&) {
  return target.overlap ? Values() : Values{false};
}

Values run_tied_embedding_syncs(const TargetTraits& target, const Job& job) {
  const std::vector<Layer> chain = layer_chain(job);
  return {target.tied_embedding_sync &&
          std::any_of(chain.begin(), chain.end(), [](const Layer& it) { return it.tied_parameters > 0; })};
}

/// With loss scaling, all devices agree in every iteration whether gradients have overflowed.
Values run_iteration_barriers(const TargetTraits& target, const Job& job) {
  return {target.iteration_barrier || job.training.precision == Precision::fp16};
}

Values run_messagings(const TargetTraits& target, const Job&) {
  return {name_of(target.messaging)};
}

Values run_sequence_parallels(const TargetTraits& target, const Job&) {
  return target.sequence_parallel ? Values{*target.sequence_parallel} : Values();
}

Values run_pipelines(const TargetTraits& target, const Job&) {
  return target.uniform_pipelines ? Values{true} : Values();
}

/// No compression that is `auto`, and no ratios without a method.
Values run_compressions(const TargetTraits& target, const Job& job, Setting setting) {
  const auto value = std::get<CompressionRatio>(traits(setting).get(job));
  const bool is_run = value.preset && has(target.compressions, value.preset->method);
  return is_run && !is_open(job, setting) ? Values() : Values{CompressionRatio()};
}

template <Setting setting>
Values run_compressions_of(const TargetTraits& target, const Job& job) {
  return run_compressions(target, job, setting);
}

constexpr auto settings = std::to_array<SettingTraits>({
    of<&Training::global_batch>({.kind = Setting::global_batch,
                                 .name = "global_batch",
                                 .section = SettingSection::training,
                                 .meaning = "samples per iteration",
                                 .is_required = true,
                                 .is_always_written = true,
                                 .runs = run_any,
                                 .diff = {.rank = 0}}),
    of<&ExecutionConfig::micro_batch>({.kind = Setting::micro_batch,
                                       .name = "micro_batch",
                                       .section = SettingSection::training,
                                       .meaning = "samples per micro-batch; must divide `global_batch`",
                                       .option_help = "samples per micro-batch",
                                       .may_be_auto = true,
                                       .may_be_list = true,
                                       .is_always_written = true,
                                       .runs = run_any,
                                       .diff = {.rank = 0}}),
    of<&Training::precision>({.kind = Setting::precision,
                              .name = "precision",
                              .section = SettingSection::training,
                              .meaning = "precision of training",
                              .option_help = "precision of training",
                              .is_always_written = true,
                              .runs = run_kinds<&TargetTraits::precisions>,
                              .target_rank = 0}),
    of<&Training::matmul>(
        {.kind = Setting::matmul,
         .name = "matmul",
         .section = SettingSection::training,
         .meaning = "format of the matrix products of blocks with weights: that of `precision`, or quantized "
                    "by Transformer Engine's recipes: fp8 (a scale per tensor, delayed or current), "
                    "fp8-blockwise (per 128 numbers), mxfp8 (per 32), nvfp4 (fp4, per 16). Weights, messages "
                    "and gradients stay in `precision`; kept inputs of products are quantized",
         .runs = run_matmul_formats,
         .target_rank = 1}),
    of<&Training::optimizer>(
        {.kind = Setting::optimizer,
         .name = "optimizer",
         .section = SettingSection::training,
         .meaning =
             "optimizer; a number is the bytes per parameter on the device. adam-14 has moments in bf16, "
             "adam-8bit in 8 bits, adafactor-10 a factored second moment only, muon-14 one momentum, "
             "which it orthogonalizes. adam-offload keeps fp32 weights and moments in host memory, where "
             "the CPUs update them. adam-20-fp32 keeps gradients twice: in `precision`, and in fp32, in "
             "which "
             "they are accumulated and sent. adam-16-fp32 keeps weights, gradients and moments in fp32, and "
             "casts the weights to `precision`; it is counted exactly without sharding and with zero3",
         .is_always_written = true,
         .runs = run_optimizers,
         .target_rank = 1}),
    of<&Parallelism::pipeline>(
        {.kind = Setting::pipeline,
         .name = "pipeline",
         .meaning =
             "number of stages; `auto` tries all divisors. Of the schemes of `dtfm-compare`, `planned` "
             "uses it, and `swarm`, whose stages need not divide the number of layers; the others do not",
         .may_be_auto = true,
         .none_is_open = true,
         .is_always_written = true,
         .is_degree = true,
         .runs = run_any}),
    of<&Parallelism::data>(
        {.kind = Setting::data,
         .name = "data",
         .meaning = "number of replicas; `auto` tries all divisors. Of the schemes of `dtfm-compare`, only "
                    "`planned` uses it",
         .may_be_auto = true,
         .none_is_open = true,
         .is_always_written = true,
         .is_degree = true,
         .runs = run_any}),
    of<&Parallelism::tensor>(
        {.kind = Setting::tensor,
         .name = "tensor",
         .meaning = "tensor-parallel degree: number of devices, on one host, that divide every layer",
         .may_be_auto = true,
         .may_be_list = true,
         .is_always_written = true,
         .is_degree = true,
         .runs = run_tensor_degrees,
         .target_rank = 3}),
    of<&ExecutionConfig::context>(
        {.kind = Setting::context,
         .name = "context",
         .meaning = "context-parallel degree. Each sequence is divided among this many groups of `tensor` "
                    "devices in a stage. The groups have the same parameters, except for experts. The length "
                    "of the sequence must be a multiple of twice the degree. Of the schemes of "
                    "`dtfm-compare`, only `planned` uses it",
         .may_be_auto = true,
         .may_be_list = true,
         .max = max_stage_parts,
         .runs = run_context_parallelism,
         .target_rank = 3,
         .diff = {.rank = 1}}),
    of<&ExecutionConfig::context_exchange>(
        {.kind = Setting::context_exchange,
         .name = "context_exchange",
         .meaning =
             "how context-parallel groups exchange data for attention: ring passes keys and values around "
             "while "
             "attention is computed (arXiv 2310.01889); all-gather collects all keys and values before "
             "attention; all-to-all gives each device some heads of all tokens, so the numbers of attention "
             "heads and of key-value heads must be multiples of `tensor` × `context` (Ulysses, arXiv "
             "2309.14509)",
         .may_be_auto = true,
         .may_be_list = true,
         .runs = run_kinds<&TargetTraits::context_exchanges>,
         .target_rank = 3,
         .diff = {.rank = 1}}),
    of<&ExecutionConfig::stage_data>(
        {.kind = Setting::stage_data,
         .name = "stage_data",
         .meaning = "number of groups of `tensor` × `context` devices in a stage that compute different "
                    "sequences of each micro-batch, so it must divide `micro_batch`. The groups have the "
                    "same parameters, except for experts. A stage has `tensor` × `context` × `stage_data` "
                    "devices, and belongs to one of the `data` replicas. Default: the smallest number for "
                    "which that is a multiple of `expert`",
         .none_is_open = true,
         .max = max_stage_parts,
         .runs = run_stage_data,
         .target_rank = 3,
         .diff = {.none = "1", .rank = 1}}),
    of<&ExecutionConfig::expert>(
        {.kind = Setting::expert,
         .name = "expert",
         .meaning = "expert-parallel degree: number of devices of a stage among which the experts of a layer "
                    "are divided; every expert is whole on one device. Must divide `tensor` × `context` × "
                    "`stage_data` and the number of experts. 1: experts are divided by `tensor` like the "
                    "other parameters. Of the schemes of `dtfm-compare`, only `planned` uses it",
         .may_be_auto = true,
         .may_be_list = true,
         .max = max_stage_parts,
         .runs = run_expert_parallelism,
         .target_rank = 3,
         .diff = {.rank = 1}}),
    of<&ExecutionConfig::expert_dispatch>(
        {.kind = Setting::expert_dispatch,
         .name = "expert_dispatch",
         .meaning =
             "how tokens reach experts on other devices: flat sends a vector for each expert that a token is "
             "routed to; hierarchical sends one vector to each host that has any of them, forwards it within "
             "the host, and sums the results there before they return (DeepEP). Routing is assumed to be "
             "random",
         .may_be_auto = true,
         .may_be_list = true,
         .runs = run_kinds<&TargetTraits::expert_dispatches>,
         .target_rank = 3,
         .diff = {.rank = 1}}),
    of<&ExecutionConfig::expert_imbalance>(
        {.kind = Setting::expert_imbalance,
         .name = "expert_imbalance",
         .meaning =
             "tokens routed to the busiest device of an expert-parallel group ÷ the mean over the group, or "
             "the "
             "capacity factor of a router that pads. It multiplies the compute and the activations of routed "
             "experts, and the all-to-alls. 1: balanced",
         .runs = run_expert_imbalance,
         .diff = {.rank = 1}}),
    of<&ExecutionConfig::schedule>(
        {.kind = Setting::schedule,
         .name = "schedule",
         .meaning = "pipeline schedule. With 1f1b-blocking and interleaved-blocking a stage waits while it "
                    "sends, as in DeepSpeed; interleaved and interleaved-blocking require `chunks`; zb-h1 "
                    "(zero bubble) delays the weight gradients; eager-1f1b has a longer warm-up that hides "
                    "slow messages (`warm_up` in plans); zb-greedy (zero bubble) gives each stage its own "
                    "order of forwards, input gradients and weight gradients, made for the plan (`passes` in "
                    "plans). `auto` tries gpipe, 1f1b, interleaved, eager-1f1b and zb-greedy",
         .option_help = "pipeline schedule",
         .may_be_auto = true,
         .may_be_list = true,
         .is_always_written = true,
         .is_in_plan_summary = true,
         .runs = run_schedules,
         .target_rank = 0,
         .diff = {.rank = 1}}),
    of<&ExecutionConfig::chunks>(
        {.kind = Setting::chunks,
         .name = "chunks",
         .meaning = "virtual stages per device; only with interleaved and interleaved-blocking",
         .option_help = "virtual stages per device, with an interleaved schedule",
         .open_with = Setting::schedule,
         .min = 2,
         .runs = run_any,
         .diff = {.none = "1", .rank = 1}}),
    of<&ExecutionConfig::flush>(
        {.kind = Setting::flush,
         .name = "flush",
         .meaning =
             "N: a pipeline finishes all backward passes of N micro-batches before it starts the next N, "
             "so that a device holds the activations of at most N. By default the planner flushes only "
             "where memory requires it",
         .option_help = "micro-batches between two pipeline flushes",
         .none_is_open = true,
         .runs = run_flushes,
         .target_rank = 5,
         .diff = {.none = "0", .rank = 1}}),
    of<&ExecutionConfig::gradient_sync>({.kind = Setting::gradient_sync,
                                         .name = "gradient_sync",
                                         .meaning = "algorithm of gradient synchronization",
                                         .option_help = "algorithm of gradient synchronization",
                                         .may_be_auto = true,
                                         .may_be_list = true,
                                         .is_always_written = true,
                                         .is_in_plan_summary = true,
                                         .runs = run_gradient_syncs,
                                         .target_rank = 0,
                                         .diff = {.rank = 1}}),
    of<&ExecutionConfig::optimizer_sharding>(
        {.kind = Setting::optimizer_sharding,
         .name = "optimizer_sharding",
         .meaning =
             "the state that the replicas of a layer partition among each other (ZeRO, arXiv "
             "1910.02054): optimizer state (zero1), gradients too (zero2), parameters too (zero3, FSDP). "
             "Requires `gradient_sync` ring or sharded-ps; zero1 also runs with hierarchical and "
             "hierarchical-ring, which partition inside each site (HSDP). zero2 and zero3 communicate once "
             "per micro-batch, and require pipelines of one stage on one device, without interleaving. "
             "If devices leave under `--scenario`, `auto` means `none` unless there is [a checkpoint that "
             "has "
             "their shards](../how-it-works.md#failures-with-a-sharded-optimizer). Bytes and memory: "
             "[how it works](../how-it-works.md#sharded-optimizers)",
         .option_help = "optimizer sharding across replicas: none, zero1, zero2 or zero3",
         .may_be_auto = true,
         .is_in_plan_summary = true,
         .runs = run_optimizer_shardings,
         .target_rank = 0,
         .diff = {.rank = 1}}),
    of<&ExecutionConfig::overlap>(
        {.kind = Setting::overlap,
         .name = "overlap",
         .meaning = "gradients are synchronized layer by layer during the backward pass",
         .option_help = "synchronizes gradients during the backward pass",
         .is_always_in_plans = true,
         .runs = run_overlaps}),
    of<&ExecutionConfig::tied_embedding_sync>(
        {.kind = Setting::tied_embedding_sync,
         .name = "tied_embedding_sync",
         .meaning = "in every pipeline, the first and the last stage all-reduce the gradients of the tied "
                    "embedding after the replicas have, as Megatron-LM and DeepSpeed do",
         .runs = run_tied_embedding_syncs}),
    of<&ExecutionConfig::iteration_barrier>(
        {.kind = Setting::iteration_barrier,
         .name = "iteration_barrier",
         .meaning =
             "true: all devices begin an iteration at the same time; false: a device begins when it has "
             "updated its weights and its messages of gradients and parameters have arrived, as in the "
             "runtime of [`pytorch`](../pytorch.md). The simulator models it (except with zero2 or "
             "zero3); the estimate always assumes a barrier",
         .runs = run_iteration_barriers}),
    of<&ExecutionConfig::messaging>(
        {.kind = Setting::messages,
         .name = "messages",
         .meaning =
             "when devices post receives and wait for sends. `ahead`: all receives are posted before the "
             "iteration, as in the runtime of [`pytorch`](../pytorch.md). The others: in the order of "
             "that [trainer](../targets.md#what-do-trainers-put-on-the-wire), where a message leaves "
             "only when its receive is posted",
         .runs = run_messagings}),
    of<&Parallelism::sequence_parallel>(
        {.kind = Setting::sequence_parallel,
         .name = "sequence_parallel",
         .meaning =
             "true: the devices of a tensor-parallel group divide all activations; false: each device "
             "keeps a full copy of the inputs of norms, attention and MLP and of the dropout masks (10 of "
             "the 34 s·h bytes of a GPT block, arXiv 2205.05198), and of the input and output of its "
             "stage, and sends that output in full (in every message, if the next stage has another "
             "degree)",
         .is_within_tensor_groups = true,
         .runs = run_sequence_parallels,
         .target_rank = 3,
         .diff = {.rank = 0}}),
    of<&Parallelism::scatter_gather>(
        {.kind = Setting::scatter_gather,
         .name = "scatter_gather",
         .meaning = "only with `sequence_parallel: false`; each device sends its part of the output of its "
                    "stage (arXiv 2104.04473, section 4.1)",
         .is_within_tensor_groups = true,
         .target_rank = 3,
         .diff = {.rank = 0}}),
    of<&Parallelism::uniform_pipelines>(
        {.kind = Setting::uniform_pipelines,
         .name = "uniform_pipelines",
         .meaning = "all pipelines have the same layers, the same number of micro-batches and one tensor "
                    "degree, as most trainers require (`dtfm-plan --uniform-pipelines`)",
         .runs = run_pipelines,
         .target_rank = 2,
         .diff = {.rank = 1}}),
    of<&ExecutionConfig::recomputation>(
        {.kind = Setting::recompute,
         .name = "recompute",
         .section = SettingSection::training,
         .meaning =
             "activation recomputation in the backward pass: of the activation functions of routed experts "
             "(moe_act), of the attention core (selective), of MLPs and experts (mlp), or of whole layers "
             "(full), or of as few whole layers in each stage as its memory requires (as-needed; the plan "
             "gives the number of each stage). offload recomputes nothing: it moves the activations of as "
             "few "
             "layers as necessary to host memory until the backward pass. It requires `host_link` for every "
             "GPU; auto does not try it, lists that name it do. "
             "moe_act has no effect without experts, and mlp has none on models given layer by layer",
         .option_help = "activation recomputation",
         .may_be_auto = true,
         .may_be_list = true,
         .is_always_written = true,
         .runs = run_recomputations,
         .target_rank = 0,
         .diff = {.rank = 1}}),
    of<&ExecutionConfig::recompute_layers>(
        {.kind = Setting::recompute_layers,
         .name = "recompute_layers",
         .section = SettingSection::training,
         .meaning =
             "with `recompute: full`, recompute only the first so many layers of every stage (with chunks: "
             "of "
             "every virtual stage); the others keep their activations, as with Megatron-LM's "
             "`--recompute-method block`. Default: all. `auto` requires that `recompute` is full, auto, or a "
             "list with full",
         .may_be_auto = true,
         .runs = run_recompute_layers,
         .diff = {.none = "all", .rank = 1}}),
    of<&Compression::activations, &Compression::activation_preset>(
        {.kind = Setting::activations,
         .name = "activations",
         .section = SettingSection::compression,
         .meaning = "bytes of activations sent ÷ bytes uncompressed, or the name of a method",
         .may_be_auto = true,
         .is_always_written = true,
         .is_for_activations = true,
         .compress = compress_activations,
         .runs = run_compressions_of<Setting::activations>,
         .target_rank = 5,
         .diff = {.name = "activation_compression"}}),
    of<&Compression::gradients, &Compression::gradient_preset>(
        {.kind = Setting::gradients,
         .name = "gradients",
         .section = SettingSection::compression,
         .meaning = "bytes of gradients sent ÷ bytes uncompressed, or the name of a method",
         .may_be_auto = true,
         .is_always_written = true,
         .compress = compress_gradients,
         .runs = run_compressions_of<Setting::gradients>,
         .target_rank = 5,
         .diff = {.name = "gradient_compression"}}),
    of<&Compression::throughput>(
        {.kind = Setting::throughput,
         .name = "throughput",
         .section = SettingSection::compression,
         .meaning =
             "uncompressed data that a device compresses or decompresses per second; by default a ratio "
             "costs no time",
         .runs = run_any,
         .diff = {.name = "compression_throughput", .none = "unlimited", .rank = 3}}),
    of<&Compression::bandwidth_threshold>(
        {.kind = Setting::bandwidth_threshold,
         .name = "bandwidth_threshold",
         .section = SettingSection::compression,
         .meaning = "only messages over links slower than this are compressed; by default all are",
         .runs = run_any,
         .diff = {.name = "compressed_links", .prefix = "slower than ", .none = "all"}}),
});
static_assert(has_row_for_each(settings, Setting::bandwidth_threshold));

}  // namespace

std::string_view name_of(SettingSection section) {
  return section_names[static_cast<std::size_t>(section)];
}

std::string_view name_of(SettingType type) {
  return type_names[static_cast<std::size_t>(type)];
}

std::span<const SettingTraits> setting_table() {
  return settings;
}

const SettingTraits& traits(Setting setting) {
  return row_of(settings, setting);
}

std::string_view name_of(Setting setting) {
  return traits(setting).name;
}

std::vector<const SettingTraits*> settings_by_rank(int (*rank)(const SettingTraits&)) {
  std::vector<const SettingTraits*> rows;
  for (const SettingTraits& it : settings) rows.push_back(&it);
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const auto* a, const auto* b) { return rank(*a) < rank(*b); });
  return rows;
}

SettingValue default_value(Setting setting) {
  static const Job job;
  return traits(setting).get(job);
}

bool has_no_effect(const Job& job, Setting setting) {
  return (setting == Setting::context_exchange && job.execution.context == 1) ||
         (setting == Setting::expert_dispatch && job.execution.expert == 1);
}

std::vector<SettingValue> values_run(const TargetTraits& target, const Job& job, Setting setting) {
  const SettingTraits& row = traits(setting);
  return row.runs == nullptr ? std::vector{default_value(setting)} : row.runs(target, job);
}

SettingValue without_preset(const SettingValue& value) {
  const auto* ratio = std::get_if<CompressionRatio>(&value);
  return ratio ? SettingValue(CompressionRatio{ratio->ratio}) : value;
}

std::string format_value(const SettingValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* count = std::get_if<int>(&value)) return fmt::format("{}", *count);
  if (const auto* factor = std::get_if<double>(&value)) return fmt::format("{}", *factor);
  if (const auto* name = std::get_if<std::string_view>(&value)) return std::string(*name);
  if (const auto* ratio = std::get_if<CompressionRatio>(&value))
    return ratio->preset ? name_of(*ratio->preset) : fmt::format("{}", ratio->ratio);
  if (const auto* rate = std::get_if<BitsPerSecond>(&value)) return fmt::format("{} bps", rate->value());
  return "";
}

bool is_open(const Job& job, Setting setting) {
  const SettingTraits& row = traits(setting);
  if (row.open_with) return is_open(job, *row.open_with);
  return job.automatic[setting] || (row.none_is_open && is_none(row.get(job)));
}

std::vector<SettingValue> listed_values(const Job& job, Setting setting) {
  const auto list = job.listed.find(setting);
  return list == job.listed.end() ? std::vector<SettingValue>() : list->second;
}

bool allows(const Job& job, Setting setting, const SettingValue& value) {
  if (const std::vector<SettingValue> listed = listed_values(job, setting);
      job.automatic[setting] && !listed.empty())
    return std::any_of(listed.begin(), listed.end(), [&](const SettingValue& it) {
      return format_value(without_preset(it)) == format_value(without_preset(value));
    });
  return is_open(job, setting) || format_value(value) == format_value(traits(setting).get(job));
}

std::vector<SettingValue> choices(const Job& job, Setting setting) {
  const SettingTraits& row = traits(setting);
  if (std::vector<SettingValue> listed = listed_values(job, setting); !listed.empty()) return listed;
  if (setting == Setting::micro_batch) {
    const std::vector<int> sizes = open_micro_batches(job);
    return {sizes.begin(), sizes.end()};
  }
  if (row.type == SettingType::flag) return {false, true};
  if (row.type != SettingType::name) return {};
  // A target may run schedules that are no candidates, because it runs no others.
  const bool has_all = job.target && setting != Setting::recompute;
  const std::vector<std::string_view> names = has_all ? row.names() : row.candidates();
  std::vector<SettingValue> values(names.begin(), names.end());
  if (setting == Setting::recompute) erase_without_effect(job, values);
  if (!job.target) return values;
  const std::vector<SettingValue> run = values_run(traits(*job.target), job, setting);
  std::erase_if(values, [&](const SettingValue& it) { return !run.empty() && !is_among(run, it); });
  return values;
}

bool is_choice(const Job& job, Setting setting, const SettingValue& value) {
  const std::vector<SettingValue> values = choices(job, setting);
  return values.empty() || is_among(values, value);
}

std::string format_allowed(const Job& job, Setting setting) {
  const std::vector<SettingValue> listed = listed_values(job, setting);
  if (!job.automatic[setting] || listed.empty()) return format_value(traits(setting).get(job));
  std::vector<std::string> texts;
  for (const SettingValue& it : listed) texts.push_back(format_value(it));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

}  // namespace dtfm
