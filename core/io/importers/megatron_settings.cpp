#include "core/io/importers/megatron_settings.hpp"

#include <algorithm>
#include <charconv>
#include <variant>

#include <fmt/format.h>

#include "core/io/importers/megatron_flags.hpp"
#include "core/plan/settings.hpp"
#include "core/plan/target.hpp"

namespace dtfm::io {
namespace {

using Value = std::optional<std::string>;

/// The second flag stands for the first with the value `selective`.
constexpr std::string_view recompute_granularity = "--recompute-granularity",
                           recompute_activations = "--recompute-activations";

// Facts about a job.

const Transformer& model_of(const Job& job) {
  static const Transformer none;
  const auto* model = std::get_if<Transformer>(&job.model);
  return model ? *model : none;
}

/// Transformer Engine has flash attention only in 16 bits.
bool has_flash(const Job& job) {
  return model_of(job).flash_attention;
}

std::string format_dropout(bool drops) {
  return drops ? "0.1" : "0.0";
}

/// Plans with flash attention do not depend on it; Llama has none.
bool has_attention_dropout(const Transformer& model) {
  return model.attention_dropout && !(model.flash_attention && is_llama_like(model));
}

Value given_if(bool condition, std::string value = "") {
  return condition ? Value(std::move(value)) : std::nullopt;
}

template <Setting setting>
std::string says(const Job& job) {
  const std::string value = format_value(traits(setting).get(job));
  return fmt::format("{}: {}", name_of(setting), value.empty() ? "none" : value);
}

template <bool Transformer::*flag>
std::string says_flag(const Job& job, std::string_view key) {
  return fmt::format("{}: {}", key, model_of(job).*flag);
}

bool has_chunks(const Job& job) {
  return traits(job.execution.schedule).has_chunks;
}

// What Megatron-LM assumes without a flag (megatron/training/arguments.py, validate_args).

std::string default_feed_forward(const MegatronFlags& flags, const MegatronRun& run) {
  const int hidden = model_of(run.job).hidden;
  return fmt::format("{}",
                     flags.has("--swiglu") ? 8 * static_cast<long long>(hidden) / 3 / 64 * 64 : 4LL * hidden);
}

std::string default_attention(const MegatronFlags& flags, const MegatronRun&) {
  return flags.has("--fp16") || flags.has("--bf16") ? "flash" : "unfused";
}

template <const char* text>
std::string constant(const MegatronFlags&, const MegatronRun&) {
  return text;
}

constexpr char adam[] = "adam", dropout[] = "0.1", layer_norm[] = "LayerNorm", learned[] = "learned_absolute",
               one[] = "1", core_attention[] = "core_attn";

const MegatronSettingFlag model_flags[] = {
    {"--ffn-hidden-size", FlagArgument::word,
     [](const MegatronRun& run) -> Value { return fmt::format("{}", mlp_width(model_of(run.job))); },
     [](const Job& job) { return fmt::format("feed_forward: {}", mlp_width(model_of(job))); },
     default_feed_forward},
    {"--group-query-attention", FlagArgument::none,
     [](const MegatronRun& run) {
       return given_if(kv_head_count(model_of(run.job)) != model_of(run.job).heads);
     },
     [](const Job& job) { return fmt::format("kv_heads: {}", kv_head_count(model_of(job))); }},
    {"--num-query-groups", FlagArgument::word,
     [](const MegatronRun& run) {
       const int groups = kv_head_count(model_of(run.job));
       return given_if(groups != model_of(run.job).heads, fmt::format("{}", groups));
     },
     [](const Job& job) { return fmt::format("kv_heads: {}", kv_head_count(model_of(job))); }},
    {"--kv-channels", FlagArgument::word,
     [](const MegatronRun& run) {
       const int width = model_of(run.job).head_dim;
       return given_if(width > 0, fmt::format("{}", width));
     },
     [](const Job& job) {
       const Transformer& model = model_of(job);
       return fmt::format("heads of width {}", model.heads > 0 ? head_width(model) : 0);
     },
     [](const MegatronFlags&, const MegatronRun& run) {
       const Transformer& model = model_of(run.job);
       return fmt::format("{}", model.heads > 0 ? model.hidden / model.heads : 0);
     }},
    {"--swiglu", FlagArgument::none, [](const MegatronRun& run) { return given_if(model_of(run.job).gated); },
     [](const Job& job) { return says_flag<&Transformer::gated>(job, "gated"); }},
    {"--normalization", FlagArgument::word,
     [](const MegatronRun& run) { return given_if(model_of(run.job).norm == Norm::rms, "RMSNorm"); },
     [](const Job& job) {
       return std::string(model_of(job).norm == Norm::rms ? "norm: rms" : "norm: layer");
     },
     constant<layer_norm>},
    {"--qk-layernorm", FlagArgument::none,
     [](const MegatronRun& run) { return given_if(model_of(run.job).qk_norm != QkNorm::none); },
     [](const Job& job) { return fmt::format("qk_norm: {}", model_of(job).qk_norm != QkNorm::none); }},
    {"--position-embedding-type", FlagArgument::word,
     [](const MegatronRun& run) { return given_if(!model_of(run.job).learned_positions, "rope"); },
     [](const Job& job) {
       return std::string(model_of(job).learned_positions ? "learned positions" : "positions: rotary");
     },
     [](const MegatronFlags& flags, const MegatronRun&) {
       return std::string(flags.has("--use-rotary-position-embeddings") ? "rope" : learned);
     }},
    {"--disable-bias-linear", FlagArgument::none,
     [](const MegatronRun& run) { return given_if(!model_of(run.job).biases.mlp); },
     [](const Job& job) { return fmt::format("biases: {}", model_of(job).biases.mlp); }},
    {"--untie-embeddings-and-output-weights", FlagArgument::none,
     [](const MegatronRun& run) { return given_if(!model_of(run.job).tied); },
     [](const Job& job) { return says_flag<&Transformer::tied>(job, "tied"); }},
    {"--attention-backend", FlagArgument::word,
     [](const MegatronRun& run) -> Value { return has_flash(run.job) ? "flash" : "unfused"; },
     [](const Job& job) { return std::string(has_flash(job) ? "attention: flash" : "attention: eager"); },
     default_attention},
    {"--attention-dropout", FlagArgument::word,
     [](const MegatronRun& run) -> Value { return format_dropout(has_attention_dropout(model_of(run.job))); },
     [](const Job& job) { return says_flag<&Transformer::attention_dropout>(job, "attention_dropout"); },
     constant<dropout>},
    {"--num-experts", FlagArgument::word, [](const MegatronRun&) { return Value(); },
     [](const Job&) { return std::string("a dense model"); }},
};

const MegatronSettingFlag execution_flags[] = {
    {"--fp16", FlagArgument::none,
     [](const MegatronRun& run) { return given_if(run.job.training.precision == Precision::fp16); },
     says<Setting::precision>},
    {"--bf16", FlagArgument::none,
     [](const MegatronRun& run) { return given_if(run.job.training.precision == Precision::bf16); },
     says<Setting::precision>},
    {"--fp8-format", FlagArgument::word, [](const MegatronRun&) { return Value(); },
     says<Setting::precision>},
    {"--optimizer", FlagArgument::word,
     [](const MegatronRun& run) -> Value {
       const Optimizer optimizer = run.job.training.optimizer;
       return traits(optimizer).is_sgd ? "sgd" : "adam";
     },
     says<Setting::optimizer>, constant<adam>},
    {"--optimizer-cpu-offload", FlagArgument::none, [](const MegatronRun&) { return Value(); },
     says<Setting::optimizer>},
    {"--use-precision-aware-optimizer", FlagArgument::none, [](const MegatronRun&) { return Value(); },
     says<Setting::optimizer>},
    {"--use-distributed-optimizer", FlagArgument::none,
     [](const MegatronRun& run) {
       return given_if(run.job.execution.optimizer_sharding == OptimizerSharding::zero1);
     },
     says<Setting::optimizer_sharding>},
    {"--num-distributed-optimizer-instances", FlagArgument::word, [](const MegatronRun&) { return Value(); },
     says<Setting::gradient_sync>, constant<one>},
    {"--use-torch-fsdp2", FlagArgument::none, [](const MegatronRun&) { return Value(); },
     says<Setting::optimizer_sharding>},
    {"--use-megatron-fsdp", FlagArgument::none, [](const MegatronRun&) { return Value(); },
     says<Setting::optimizer_sharding>},
    {"--overlap-param-gather", FlagArgument::none, [](const MegatronRun&) { return Value(); },
     [](const Job& job) {
       return says<Setting::optimizer_sharding>(job) + ", whose parameters no forward pass overlaps";
     }},
    {"--overlap-grad-reduce", FlagArgument::none,
     [](const MegatronRun& run) { return given_if(run.job.execution.overlap); }, says<Setting::overlap>},
    {"--grad-reduce-in-bf16", FlagArgument::none, [](const MegatronRun&) { return Value(); },
     says<Setting::optimizer>},
    {"--sequence-parallel", FlagArgument::none,
     [](const MegatronRun& run) { return given_if(run.tensor > 1 && run.job.parallelism.sequence_parallel); },
     says<Setting::sequence_parallel>},
    {"--no-overlap-p2p-communication", FlagArgument::none,
     [](const MegatronRun& run) {
       return given_if(has_chunks(run.job) && traits(run.job.execution.schedule).is_blocking);
     },
     says<Setting::schedule>},
    {"--overlap-p2p-communication-warmup-flush", FlagArgument::none,
     [](const MegatronRun& run) {
       return given_if(has_chunks(run.job) && !traits(run.job.execution.schedule).is_blocking);
     },
     says<Setting::schedule>},
    {"--microbatch-group-size-per-virtual-pipeline-stage", FlagArgument::word,
     [](const MegatronRun&) { return Value(); }, says<Setting::schedule>,
     [](const MegatronFlags&, const MegatronRun& run) { return fmt::format("{}", run.stages); }},
    {recompute_activations, FlagArgument::none, [](const MegatronRun&) { return Value(); },
     says<Setting::recompute>},
    {recompute_granularity, FlagArgument::word,
     [](const MegatronRun& run) {
       const Recomputation kind = run.job.execution.recomputation;
       return given_if(kind != Recomputation::none, std::string(name_of(kind)));
     },
     says<Setting::recompute>},
    {"--recompute-method", FlagArgument::word,
     [](const MegatronRun& run) {
       return given_if(run.job.execution.recomputation == Recomputation::full, "uniform");
     },
     says<Setting::recompute>},
    {"--recompute-num-layers", FlagArgument::word,
     [](const MegatronRun& run) {
       return given_if(run.job.execution.recomputation == Recomputation::full, "1");
     },
     says<Setting::recompute>},
    {"--recompute-modules", FlagArgument::word, [](const MegatronRun&) { return Value(); },
     says<Setting::recompute>, constant<core_attention>},
};

std::optional<double> to_number(const std::string& text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, number);
  return status == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

bool is_same(const Value& a, const Value& b) {
  if (a == b) return true;
  const auto x = a ? to_number(*a) : std::nullopt, y = b ? to_number(*b) : std::nullopt;
  return x && y && *x == *y;
}

/// The value of a flag in the notation of the table: other names of the same, as far as plans depend on it.
Value value_in(const MegatronFlags& flags, const MegatronSettingFlag& row, const MegatronRun& run) {
  const auto by_default = [&] { return row.by_default ? Value(row.by_default(flags, run)) : std::nullopt; };
  if (row.name == recompute_granularity && flags.has(recompute_activations)) return "selective";
  if (!flags.has(row.name)) return by_default();
  const std::string& text = flags.text(row.name);
  if (row.name == "--attention-backend" && (text == "auto" || text == "fused"))
    return default_attention(flags, run);
  if (row.name == "--attention-backend" && text == "local") return "unfused";
  return text;
}

/// Whether a plan depends on the flag, given the others. The second of two flags that say the same is not
/// reported.
bool matters(const MegatronFlags& flags, const MegatronSettingFlag& row, const MegatronRun& run) {
  if (flags.has(row.name) && flags.text(row.name).starts_with('$')) return false;  // not known
  if (row.name == "--num-query-groups") return flags.has("--group-query-attention");
  if (row.name == "--attention-dropout") return !has_flash(run.job);
  if (row.name == recompute_activations) return false;
  if (row.name == "--recompute-method" || row.name == "--recompute-num-layers")
    return flags.has(recompute_granularity) && flags.text(recompute_granularity) == "full" &&
           run.job.execution.recomputation == Recomputation::full;
  if (row.name == "--recompute-modules") return run.job.execution.recomputation == Recomputation::selective;
  if (row.name == "--sequence-parallel") return run.tensor > 1;
  if (row.name == "--microbatch-group-size-per-virtual-pipeline-stage") return has_chunks(run.job);
  if (row.name == "--use-precision-aware-optimizer") return !flags.has("--optimizer-cpu-offload");
  return true;
}

}  // namespace

std::span<const MegatronSettingFlag> megatron_setting_flags() {
  static const std::vector<MegatronSettingFlag> all = [] {
    std::vector<MegatronSettingFlag> flags(std::begin(model_flags), std::end(model_flags));
    flags.insert(flags.end(), std::begin(execution_flags), std::end(execution_flags));
    return flags;
  }();
  return all;
}

std::vector<std::pair<std::string, std::string>> megatron_arguments(const MegatronRun& run) {
  std::vector<std::pair<std::string, std::string>> arguments;
  for (const MegatronSettingFlag& it : megatron_setting_flags())
    if (const Value value = it.value(run)) arguments.emplace_back(it.name, *value);
  return arguments;
}

std::map<Setting, std::string> megatron_settings(const MegatronFlags& flags, int chunks) {
  const Precision precision = flags.has("--fp16")   ? Precision::fp16
                              : flags.has("--bf16") ? Precision::bf16
                                                    : Precision::tf32;
  const auto number = [&](const char* flag) { return fmt::format("{}", flags.number(flag).value_or(1)); };
  const auto word = [&](std::string_view flag, std::string by_default) {
    return flags.has(flag) ? flags.text(flag) : std::move(by_default);
  };
  const auto is_given = [&](const char* flag) { return std::string(flags.has(flag) ? "true" : "false"); };
  const std::string optimizer = word("--optimizer", adam);
  const Schedule schedule = chunks == 1                                   ? Schedule::one_f_one_b_blocking
                            : flags.has("--no-overlap-p2p-communication") ? Schedule::interleaved_blocking
                                                                          : Schedule::interleaved;
  const bool has_groups = flags.number("--tensor-model-parallel-size").value_or(1) > 1;
  return {
      {Setting::global_batch, number("--global-batch-size")},
      {Setting::micro_batch, number("--micro-batch-size")},
      {Setting::precision, std::string(name_of(precision))},
      {Setting::optimizer,
       optimizer == adam
           ? std::string(name_of(traits(Target::megatron).optimizer(Optimizer::adam_16, precision)))
           : optimizer},
      {Setting::pipeline, number("--pipeline-model-parallel-size")},
      {Setting::tensor, number("--tensor-model-parallel-size")},
      {Setting::schedule, std::string(name_of(schedule))},
      {Setting::chunks, chunks > 1 ? fmt::format("{}", chunks) : ""},
      {Setting::optimizer_sharding, flags.has("--use-distributed-optimizer") ? "zero1" : "none"},
      {Setting::overlap, is_given("--overlap-grad-reduce")},
      {Setting::tied_embedding_sync, flags.has("--untie-embeddings-and-output-weights") ? "false" : "true"},
      {Setting::sequence_parallel, has_groups ? is_given("--sequence-parallel") : "true"},
      {Setting::recompute,
       flags.has(recompute_activations) ? "selective" : word(recompute_granularity, "none")}};
}

std::vector<std::string> megatron_differences(const MegatronFlags& flags, const MegatronRun& run) {
  std::vector<std::string> lines;
  const bool is_transformer = std::holds_alternative<Transformer>(run.job.model);
  for (const MegatronSettingFlag& row :
       is_transformer ? megatron_setting_flags() : std::span<const MegatronSettingFlag>(execution_flags)) {
    if (!matters(flags, row, run)) continue;
    const Value by_default = row.by_default ? Value(row.by_default(flags, run)) : std::nullopt;
    const Value expected = row.value(run) ? row.value(run) : by_default, found = value_in(flags, row, run);
    if (is_same(expected, found)) continue;
    // The flag that gives the value.
    const std::string_view name = row.name == recompute_granularity && flags.has(recompute_activations)
                                      ? recompute_activations
                                      : row.name;
    const bool is_given = flags.has(name);
    const std::string value = is_given && !flags.text(name).empty() ? " " + flags.text(name) : "";
    lines.push_back(fmt::format("{}{} is {}among the flags{}, but the plan assumes {}, as job {} says", name,
                                value, is_given ? "" : "not ",
                                !is_given && by_default ? fmt::format(" ({} by default)", *by_default) : "",
                                row.says(run.job), run.job.name));
  }
  return lines;
}

}  // namespace dtfm::io
