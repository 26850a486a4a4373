#include "core/io/importers/megatron_settings.hpp"

#include <algorithm>
#include <charconv>
#include <variant>

#include <fmt/format.h>

#include "core/io/importers/megatron_flags.hpp"
#include "core/io/importers/megatron_pattern.hpp"
#include "core/model/model_features.hpp"
#include "core/plan/settings.hpp"
#include "core/plan/stage_mesh.hpp"
#include "core/plan/target.hpp"

namespace dtfm::io {
namespace {

using Value = std::optional<std::string>;

constexpr double max_every = 1e9;  // N of "every Nth layer"

/// The second flag stands for the first with the value `selective`.
constexpr std::string_view recompute_granularity = "--recompute-granularity",
                           recompute_activations = "--recompute-activations",
                           recompute_modules = "--recompute-modules", fp8_recipe_flag = "--fp8-recipe",
                           context_comm_flag = "--cp-comm-type",
                           dispatcher_flag = "--moe-token-dispatcher-type",
                           offload_flag = "--optimizer-cpu-offload";

// Flags on which others depend.
constexpr std::string_view group_flag = "--group-query-attention", no_bias_flag = "--disable-bias-linear",
                           latent_flag = "--multi-latent-attention", window_flag = "--window-size",
                           experts_flag = "--num-experts", prediction_flag = "--mtp-num-layers";

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

/// Latent attention and sinks, for which Transformer Engine has cuDNN's attention, but no FlashAttention-2.
bool needs_fused_attention(const Job& job) {
  return model_of(job).latent.kv_rank > 0 || model_of(job).attention_sinks;
}

std::string format_dropout(bool drops) {
  return drops ? "0.1" : "0.0";
}

std::optional<double> to_number(const std::string& text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, number);
  return status == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

/// Plans with flash attention do not depend on it; Llama has none.
bool has_attention_dropout(const Transformer& model) {
  return model.attention_dropout && !(model.flash_attention && is_llama_like(model));
}

bool has_latent_attention(const Job& job) {
  return model_of(job).latent.kv_rank > 0;
}

bool has_experts(const Job& job) {
  return has_block(model_of(job), Mlp::experts);
}

bool has_window(const Job& job) {
  return has_block(model_of(job), Mixer::window_attention);
}

/// Megatron-LM has one flag for norms of queries and keys and of latent vectors, which latent attention has.
bool normalizes_queries(const Job& job) {
  return has_latent_attention(job) || model_of(job).qk_norm != QkNorm::none;
}

std::string number(int value) {
  return fmt::format("{}", value);
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

std::string default_expert_width(const MegatronFlags& flags, const MegatronRun& run) {
  return flags.has("--ffn-hidden-size") ? flags.text("--ffn-hidden-size") : default_feed_forward(flags, run);
}

template <const char* text>
std::string constant(const MegatronFlags&, const MegatronRun&) {
  return text;
}

constexpr char adam[] = "adam", dropout[] = "0.1", layer_norm[] = "LayerNorm", learned[] = "learned_absolute",
               one[] = "1", two[] = "2", core_attention[] = "core_attn", vanilla[] = "vanilla",
               allgather[] = "allgather", deepep[] = "deepep", p2p[] = "p2p", delayed[] = "delayed",
               kv_lora_rank[] = "32", qk_head_dim[] = "128", qk_pos_emb_head_dim[] = "64",
               v_head_dim[] = "128";

std::string context_word(ContextExchange exchange) {
  switch (exchange) {
    case ContextExchange::ring:
      return "p2p";
    case ContextExchange::all_gather:
      return "all_gather";
    case ContextExchange::all_to_all:
      break;
  }
  return "a2a";
}

/// The value of context_exchange for one of `--cp-comm-type`; unknown values are returned unchanged.
std::string context_exchange(const std::string& word) {
  for (const ContextExchangeTraits& it : context_exchange_table())
    if (word == context_word(it.kind)) return std::string(it.name);
  return word;
}

bool is_offloaded(const Job& job) {
  return job.training.optimizer == Optimizer::adam_offload;
}

bool dispatches_by_host(const Job& job) {
  return job.execution.expert > 1 && job.execution.expert_dispatch == ExpertDispatch::hierarchical;
}

/// Of the products of a job; empty without fp8. Scales of fp8 are current ones: with delayed ones,
/// activation functions cannot be recomputed.
std::string_view fp8_recipe(MatmulFormat format) {
  switch (format) {
    case MatmulFormat::precision:
    case MatmulFormat::nvfp4:
      return "";
    case MatmulFormat::fp8:
      return "tensorwise";
    case MatmulFormat::fp8_blockwise:
      return "blockwise";
    case MatmulFormat::mxfp8:
      return "mxfp8";
  }
  return "";
}

MatmulFormat matmul_format(const MegatronFlags& flags) {
  if (flags.has("--fp4-format")) return MatmulFormat::nvfp4;
  if (!flags.has("--fp8-format")) return MatmulFormat::precision;
  for (const MatmulFormatTraits& it : matmul_format_table())
    if (flags.has(fp8_recipe_flag) && !fp8_recipe(it.kind).empty() &&
        flags.text(fp8_recipe_flag) == fp8_recipe(it.kind))
      return it.kind;
  return MatmulFormat::fp8;
}

/// Plans do not depend on how the 8 bits are divided.
std::string common_format(const std::string& text, const MegatronFlags&, const MegatronRun&) {
  return text == "e4m3" ? "hybrid" : text;
}

/// Both have a scale per tensor.
std::string common_recipe(const std::string& text, const MegatronFlags&, const MegatronRun&) {
  return text == delayed ? "tensorwise" : text;
}

/// The modules that a selective recomputation repeats; nullopt: the default, core_attn.
std::optional<std::string> recomputed_modules(const MegatronRun& run) {
  const Recomputation kind = run.job.execution.recomputation;
  if (kind == Recomputation::moe_act) return "moe_act";
  if (kind != Recomputation::mlp) return std::nullopt;
  if (expert_count(run.job.model) == 0) return "mlp";  // also of models given layer by layer
  return has_block(model_of(run.job), Mlp::dense) ? "mlp moe" : "moe";
}

/// The setting of flags with `--recompute-granularity selective`. Of other modules, it remains as it is.
std::string selective_recomputation(const MegatronFlags& flags) {
  const std::string modules = flags.has(recompute_modules) ? flags.text(recompute_modules) : core_attention;
  for (const auto& [text, name] :
       {std::pair("core_attn", Recomputation::selective), std::pair("moe_act", Recomputation::moe_act),
        std::pair("mlp", Recomputation::mlp), std::pair("moe", Recomputation::mlp),
        std::pair("mlp moe", Recomputation::mlp), std::pair("moe mlp", Recomputation::mlp)})
    if (modules == text) return std::string(name_of(name));
  return modules;
}

/// Modules that the model has, in one order.
std::string common_modules(const std::string& text, const MegatronFlags&, const MegatronRun& run) {
  if (text != "moe mlp" && text != "mlp moe") return text;
  return run.job.execution.recomputation == Recomputation::mlp ? recomputed_modules(run).value() : "mlp moe";
}

std::string says_modules(const Job& job) {
  const auto modules = recomputed_modules({job});
  return says<Setting::recompute>(job) + (modules ? fmt::format(" (modules {})", *modules) : "");
}

std::string says_recompute_layers(const Job& job) {
  const auto layers = job.execution.recompute_layers;
  return says<Setting::recompute>(job) +
         (layers ? fmt::format(" in the first {} layers of every stage", *layers) : "");
}

std::string common_backend(const std::string& text, const MegatronFlags& flags, const MegatronRun& run) {
  if (text == "auto" || text == "fused") return default_attention(flags, run);
  return text == "local" ? "unfused" : text;
}

/// Parentheses of a pair have no meaning.
std::string common_pair(const std::string& text, const MegatronFlags&, const MegatronRun&) {
  std::string pair = text;
  std::erase_if(pair, [](char c) { return c == '(' || c == ')'; });
  return pair;
}

/// Which layers have the property. A number N instead of a pattern selects every Nth layer.
template <bool selects(int layer, int n)>
std::string common_pattern(const std::string& text, const MegatronFlags&, const MegatronRun& run) {
  if (const auto n = to_number(text); n && *n >= 1 && *n <= max_every) {
    LayerPattern pattern;
    for (int layer = 0; layer < model_of(run.job).layers; ++layer)
      pattern.push_back(selects(layer, static_cast<int>(*n)));
    return pattern.empty() ? text : format_pattern(pattern);
  }
  const auto pattern = parse_pattern(text);
  return pattern && !pattern->empty() ? format_pattern(*pattern) : text;
}

/// The first layer and every Nth after it (get_gpt_decoder_layer_specs).
constexpr bool has_experts_at(int layer, int n) {
  return layer % n == 0;
}

/// All but every Nth layer (is_layer_window_attention).
constexpr bool has_window_at(int layer, int n) {
  return (layer + 1) % n != 0;
}

/// The layers with the property; nullopt: all or none.
template <class Predicate>
Value some_layers(const Transformer& model, const Predicate& has) {
  LayerPattern pattern;
  for (const BlockKind& it : model.blocks) pattern.push_back(has(it));
  const bool is_uniform = std::equal(pattern.begin() + !pattern.empty(), pattern.end(), pattern.begin());
  if (is_uniform) return std::nullopt;
  return format_pattern(pattern);
}

Value expert_layers(const MegatronRun& run) {
  return some_layers(model_of(run.job), [](const BlockKind& it) { return it.mlp == Mlp::experts; });
}

std::string every_layer(const MegatronFlags&, const MegatronRun& run) {
  return format_pattern(LayerPattern(static_cast<std::size_t>(std::max(1, model_of(run.job).layers)), true));
}

Value window_layers(const MegatronRun& run) {
  return some_layers(model_of(run.job),
                     [](const BlockKind& it) { return it.mixer == Mixer::window_attention; });
}

template <Value of(const MegatronRun&)>
std::string says_layers(std::string_view what, const Job& job) {
  const Value layers = of({job});
  return fmt::format("{} in {}", what, layers ? "layers " + *layers : "all layers");
}

template <int LatentAttention::*size>
Value latent_size(const MegatronRun& run) {
  const int value = model_of(run.job).latent.*size;
  return given_if(has_latent_attention(run.job) && value > 0, number(value));
}

template <int LatentAttention::*size>
std::string says_latent(std::string_view key, const Job& job) {
  return fmt::format("latent_attention.{}: {}", key, model_of(job).latent.*size);
}

template <int Experts::*size>
Value expert_size(const MegatronRun& run) {
  const int value = model_of(run.job).experts.*size;
  return given_if(has_experts(run.job) && value > 0, number(value));
}

template <int Experts::*size>
std::string says_expert(std::string_view key, const Job& job) {
  return fmt::format("experts.{}: {}", key, model_of(job).experts.*size);
}

bool has_shared_gate(const Job& job) {
  const Experts& experts = model_of(job).experts;
  return has_experts(job) && experts.shared_width > 0 && experts.shared_gate;
}

std::string says_biases(const Job& job) {
  switch (bias_pattern(model_of(job))) {
    case BiasPattern::none:
      return "biases: false";
    case BiasPattern::all:
      return "biases: true";
    case BiasPattern::qkv:
      return "biases: [qkv]";
    case BiasPattern::other:
      break;
  }
  return "biases of some matrices";
}

template <bool (*given)(const Job&)>
Value flag_if(const MegatronRun& run) {
  return given_if(given(run.job));
}

Value never(const MegatronRun&) {
  return std::nullopt;
}

const MegatronSettingFlag model_flags[] = {
    {"--ffn-hidden-size", FlagArgument::word,
     [](const MegatronRun& run) -> Value { return fmt::format("{}", mlp_width(model_of(run.job))); },
     [](const Job& job) { return fmt::format("feed_forward: {}", mlp_width(model_of(job))); },
     default_feed_forward},
    {group_flag, FlagArgument::none,
     [](const MegatronRun& run) {
       return given_if(!has_latent_attention(run.job) &&
                       kv_head_count(model_of(run.job)) != model_of(run.job).heads);
     },
     [](const Job& job) { return fmt::format("kv_heads: {}", kv_head_count(model_of(job))); }},
    {"--num-query-groups", FlagArgument::word,
     [](const MegatronRun& run) {
       const int groups = kv_head_count(model_of(run.job));
       return given_if(!has_latent_attention(run.job) && groups != model_of(run.job).heads, number(groups));
     },
     [](const Job& job) { return fmt::format("kv_heads: {}", kv_head_count(model_of(job))); }, nullptr,
     group_flag},
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
     [](const MegatronRun& run) { return given_if(normalizes_queries(run.job)); },
     [](const Job& job) {
       return has_latent_attention(job) ? std::string("norms of latent vectors")
                                        : fmt::format("qk_norm: {}", normalizes_queries(job));
     }},
    {"--position-embedding-type", FlagArgument::word,
     [](const MegatronRun& run) { return given_if(!model_of(run.job).learned_positions, "rope"); },
     [](const Job& job) {
       return std::string(model_of(job).learned_positions ? "learned positions" : "positions: rotary");
     },
     [](const MegatronFlags& flags, const MegatronRun&) {
       return std::string(flags.has("--use-rotary-position-embeddings") ? "rope" : learned);
     }},
    {no_bias_flag, FlagArgument::none,
     [](const MegatronRun& run) { return given_if(bias_pattern(model_of(run.job)) != BiasPattern::all); },
     says_biases},
    {"--add-qkv-bias", FlagArgument::none,
     [](const MegatronRun& run) { return given_if(bias_pattern(model_of(run.job)) == BiasPattern::qkv); },
     says_biases, nullptr, no_bias_flag},
    {"--untie-embeddings-and-output-weights", FlagArgument::none,
     [](const MegatronRun& run) { return given_if(!model_of(run.job).tied); },
     [](const Job& job) { return says_flag<&Transformer::tied>(job, "tied"); }},
    {"--attention-backend",
     FlagArgument::word,
     [](const MegatronRun& run) -> Value {
       return !has_flash(run.job) ? "unfused" : needs_fused_attention(run.job) ? "auto" : "flash";
     },
     [](const Job& job) { return std::string(has_flash(job) ? "attention: flash" : "attention: eager"); },
     default_attention,
     {},
     common_backend},
    {"--attention-dropout", FlagArgument::word,
     [](const MegatronRun& run) -> Value { return format_dropout(has_attention_dropout(model_of(run.job))); },
     [](const Job& job) { return says_flag<&Transformer::attention_dropout>(job, "attention_dropout"); },
     constant<dropout>},
    {"--attention-output-gate", FlagArgument::none, never,
     [](const Job& job) { return says_flag<&Transformer::attention_gate>(job, "attention_gate"); }},
    {"--experimental-attention-variant", FlagArgument::word, never,
     [](const Job&) { return std::string("attention in all blocks"); }},
    {"--softmax-type", FlagArgument::word,
     [](const MegatronRun& run) { return given_if(model_of(run.job).attention_sinks, "learnable"); },
     [](const Job& job) { return says_flag<&Transformer::attention_sinks>(job, "attention_sinks"); },
     constant<vanilla>},
    // A token attends to itself, too.
    {window_flag,
     FlagArgument::word,
     [](const MegatronRun& run) {
       return given_if(has_window(run.job), fmt::format("{},0", model_of(run.job).window - 1));
     },
     [](const Job& job) {
       return has_window(job) ? fmt::format("window: {}", model_of(job).window) : std::string("no window");
     },
     nullptr,
     {},
     common_pair},
    {"--window-attn-skip-freq", FlagArgument::word, window_layers,
     [](const Job& job) { return says_layers<window_layers>("windows", job); }, every_layer, window_flag,
     common_pattern<has_window_at>},
    {latent_flag, FlagArgument::none, flag_if<has_latent_attention>,
     [](const Job& job) {
       return std::string(has_latent_attention(job) ? "latent attention" : "ordinary attention");
     }},
    {"--q-lora-rank", FlagArgument::word, latent_size<&LatentAttention::query_rank>,
     [](const Job& job) { return says_latent<&LatentAttention::query_rank>("query_rank", job); }, nullptr,
     latent_flag},
    {"--kv-lora-rank", FlagArgument::word, latent_size<&LatentAttention::kv_rank>,
     [](const Job& job) { return says_latent<&LatentAttention::kv_rank>("kv_rank", job); },
     constant<kv_lora_rank>, latent_flag},
    {"--qk-head-dim", FlagArgument::word, latent_size<&LatentAttention::nope_dim>,
     [](const Job& job) { return says_latent<&LatentAttention::nope_dim>("nope_dim", job); },
     constant<qk_head_dim>, latent_flag},
    {"--qk-pos-emb-head-dim", FlagArgument::word, latent_size<&LatentAttention::rope_dim>,
     [](const Job& job) { return says_latent<&LatentAttention::rope_dim>("rope_dim", job); },
     constant<qk_pos_emb_head_dim>, latent_flag},
    {"--v-head-dim", FlagArgument::word, latent_size<&LatentAttention::value_dim>,
     [](const Job& job) { return says_latent<&LatentAttention::value_dim>("value_dim", job); },
     constant<v_head_dim>, latent_flag},
    {prediction_flag, FlagArgument::word,
     [](const MegatronRun& run) {
       const int tokens = model_of(run.job).predicted_tokens;
       return given_if(tokens > 0, number(tokens));
     },
     [](const Job& job) { return fmt::format("predicted_tokens: {}", model_of(job).predicted_tokens); }},
    {"--mtp-use-repeated-layer", FlagArgument::none, never,
     [](const Job&) { return std::string("a module of its own for each predicted token"); }, nullptr,
     prediction_flag},
    {experts_flag, FlagArgument::word, expert_size<&Experts::count>,
     [](const Job& job) {
       return has_experts(job) ? says_expert<&Experts::count>("count", job) : std::string("a dense model");
     }},
    {"--moe-layer-freq", FlagArgument::word, expert_layers,
     [](const Job& job) { return says_layers<expert_layers>("experts", job); }, constant<one>, experts_flag,
     common_pattern<has_experts_at>},
    {"--moe-router-topk", FlagArgument::word, expert_size<&Experts::per_token>,
     [](const Job& job) { return says_expert<&Experts::per_token>("per_token", job); }, constant<two>,
     experts_flag},
    // Megatron-LM requires it to train a router that chooses one expert.
    {"--moe-router-pre-softmax", FlagArgument::none,
     [](const MegatronRun& run) {
       return given_if(has_experts(run.job) && model_of(run.job).experts.per_token == 1);
     },
     [](const Job& job) { return says_expert<&Experts::per_token>("per_token", job); }, nullptr,
     experts_flag},
    {"--moe-router-dtype", FlagArgument::word,
     [](const MegatronRun& run) { return given_if(has_experts(run.job), "fp32"); },
     [](const Job&) { return std::string("scores of experts in fp32"); }, nullptr, experts_flag},
    {"--moe-ffn-hidden-size", FlagArgument::word, expert_size<&Experts::width>,
     [](const Job& job) { return says_expert<&Experts::width>("width", job); }, default_expert_width,
     experts_flag},
    {"--moe-shared-expert-intermediate-size", FlagArgument::word, expert_size<&Experts::shared_width>,
     [](const Job& job) { return says_expert<&Experts::shared_width>("shared_width", job); }, nullptr,
     experts_flag},
    {"--moe-shared-expert-gate", FlagArgument::none, flag_if<has_shared_gate>,
     [](const Job& job) { return fmt::format("experts.shared_gate: {}", has_shared_gate(job)); }, nullptr,
     experts_flag},
    {"--moe-grouped-gemm", FlagArgument::none, flag_if<has_experts>,
     [](const Job&) { return std::string("one product for all experts of a device"); }, nullptr,
     experts_flag},
    {dispatcher_flag, FlagArgument::word,
     [](const MegatronRun& run) {
       return given_if(has_experts(run.job), dispatches_by_host(run.job) ? "flex" : "alltoall");
     },
     says<Setting::expert_dispatch>, constant<allgather>, experts_flag},
    {"--moe-flex-dispatcher-backend", FlagArgument::word,
     [](const MegatronRun& run) { return given_if(dispatches_by_host(run.job), deepep); },
     says<Setting::expert_dispatch>, constant<deepep>, experts_flag},
    {"--moe-expert-capacity-factor", FlagArgument::word, never,
     [](const Job&) { return std::string("experts that drop no token"); }, nullptr, experts_flag},
    {"--moe-latent-size", FlagArgument::word, never,
     [](const Job&) { return std::string("experts of the width of the model"); }, nullptr, experts_flag},
};

const MegatronSettingFlag execution_flags[] = {
    {"--fp16", FlagArgument::none,
     [](const MegatronRun& run) { return given_if(run.job.training.precision == Precision::fp16); },
     says<Setting::precision>},
    {"--bf16", FlagArgument::none,
     [](const MegatronRun& run) { return given_if(run.job.training.precision == Precision::bf16); },
     says<Setting::precision>},
    {"--fp8-format", FlagArgument::word,
     [](const MegatronRun& run) -> Value {
       const MatmulFormat format = run.job.training.matmul;
       return given_if(!fp8_recipe(format).empty(), format == MatmulFormat::fp8 ? "hybrid" : "e4m3");
     },
     says<Setting::matmul>, nullptr, "", common_format},
    {fp8_recipe_flag, FlagArgument::word,
     [](const MegatronRun& run) {
       return given_if(!fp8_recipe(run.job.training.matmul).empty(),
                       std::string(fp8_recipe(run.job.training.matmul)));
     },
     says<Setting::matmul>, constant<delayed>, "--fp8-format", common_recipe},
    {"--fp4-format", FlagArgument::word,
     [](const MegatronRun& run) { return given_if(run.job.training.matmul == MatmulFormat::nvfp4, "e2m1"); },
     says<Setting::matmul>},
    {"--optimizer", FlagArgument::word,
     [](const MegatronRun& run) -> Value {
       const Optimizer optimizer = run.job.training.optimizer;
       return traits(optimizer).is_sgd ? "sgd" : "adam";
     },
     says<Setting::optimizer>, constant<adam>},
    {offload_flag, FlagArgument::none, [](const MegatronRun& run) { return given_if(is_offloaded(run.job)); },
     says<Setting::optimizer>},
    {"--optimizer-offload-fraction", FlagArgument::word,
     [](const MegatronRun& run) { return given_if(is_offloaded(run.job), "1"); }, says<Setting::optimizer>,
     constant<one>, offload_flag},
    {"--use-precision-aware-optimizer", FlagArgument::none,
     [](const MegatronRun& run) { return given_if(is_offloaded(run.job)); }, says<Setting::optimizer>},
    {"--use-distributed-optimizer", FlagArgument::none,
     [](const MegatronRun& run) {
       return given_if(run.job.execution.optimizer_sharding == OptimizerSharding::zero1);
     },
     says<Setting::optimizer_sharding>},
    {"--num-distributed-optimizer-instances", FlagArgument::word,
     [](const MegatronRun& run) {
       return given_if(traits(run.job.execution.gradient_sync).has_instances, number(run.instances));
     },
     says<Setting::gradient_sync>, constant<one>},
    {"--use-torch-fsdp2", FlagArgument::none, never, says<Setting::optimizer_sharding>},
    {"--use-megatron-fsdp", FlagArgument::none, never, says<Setting::optimizer_sharding>},
    {"--overlap-param-gather", FlagArgument::none, never,
     [](const Job& job) {
       return says<Setting::optimizer_sharding>(job) + ", whose parameters no forward pass overlaps";
     }},
    {"--overlap-grad-reduce", FlagArgument::none,
     [](const MegatronRun& run) { return given_if(run.job.execution.overlap); }, says<Setting::overlap>},
    {"--grad-reduce-in-bf16", FlagArgument::none, never, says<Setting::optimizer>},
    {"--sequence-parallel", FlagArgument::none,
     [](const MegatronRun& run) { return given_if(run.tensor > 1 && run.job.parallelism.sequence_parallel); },
     says<Setting::sequence_parallel>},
    {context_comm_flag, FlagArgument::word,
     [](const MegatronRun& run) {
       return given_if(run.job.execution.context > 1, context_word(run.job.execution.context_exchange));
     },
     says<Setting::context_exchange>, constant<p2p>},
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
    {"--microbatch-group-size-per-virtual-pipeline-stage", FlagArgument::word, never, says<Setting::schedule>,
     [](const MegatronFlags&, const MegatronRun& run) { return fmt::format("{}", run.stages); }},
    {recompute_activations, FlagArgument::none, never, says<Setting::recompute>},
    {recompute_granularity, FlagArgument::word,
     [](const MegatronRun& run) {
       const Recomputation kind = run.job.execution.recomputation;
       return given_if(kind != Recomputation::none, kind == Recomputation::full ? "full" : "selective");
     },
     says<Setting::recompute>},
    {"--recompute-method", FlagArgument::word,
     [](const MegatronRun& run) {
       const ExecutionConfig& how = run.job.execution;
       return given_if(how.recomputation == Recomputation::full, how.recompute_layers ? "block" : "uniform");
     },
     says_recompute_layers},
    {"--recompute-num-layers", FlagArgument::word,
     [](const MegatronRun& run) {
       const ExecutionConfig& how = run.job.execution;
       return given_if(how.recomputation == Recomputation::full, number(how.recompute_layers.value_or(1)));
     },
     says_recompute_layers},
    {recompute_modules, FlagArgument::words, recomputed_modules, says_modules, constant<core_attention>, "",
     common_modules},
};

bool is_same(const Value& a, const Value& b) {
  if (a == b) return true;
  const auto x = a ? to_number(*a) : std::nullopt, y = b ? to_number(*b) : std::nullopt;
  return x && y && *x == *y;
}

/// What the flags say.
Value value_in(const MegatronFlags& flags, const MegatronSettingFlag& row, const MegatronRun& run) {
  const auto by_default = [&] { return row.by_default ? Value(row.by_default(flags, run)) : std::nullopt; };
  if (row.name == recompute_granularity && flags.has(recompute_activations)) return "selective";
  if (!flags.has(row.name)) return by_default();
  return flags.text(row.name);
}

bool is_equal(const MegatronFlags& flags, const MegatronSettingFlag& row, const MegatronRun& run, Value a,
              Value b) {
  if (row.canonical && a) a = row.canonical(*a, flags, run);
  if (row.canonical && b) b = row.canonical(*b, flags, run);
  return is_same(a, b);
}

/// Whether Megatron-LM and the job have what the flag is about.
bool has_parent(const MegatronFlags& flags, const MegatronSettingFlag& row, const MegatronRun& run) {
  if (row.parent.empty()) return true;
  const auto rows = megatron_setting_flags();
  const auto parent =
      std::find_if(rows.begin(), rows.end(), [&](const auto& it) { return it.name == row.parent; });
  return flags.has(row.parent) && parent->value(run);
}

/// Whether a plan depends on the flag, given the others. The second of two flags that say the same is not
/// reported.
bool matters(const MegatronFlags& flags, const MegatronSettingFlag& row, const MegatronRun& run) {
  if (flags.has(row.name) && flags.text(row.name).starts_with('$')) return false;  // not known
  if (!has_parent(flags, row, run)) return false;
  if (row.name == group_flag || row.name == "--kv-channels") return !has_latent_attention(run.job);
  if (row.name == "--ffn-hidden-size") return has_block(model_of(run.job), Mlp::dense);
  if (row.name == "--moe-router-pre-softmax") return model_of(run.job).experts.per_token == 1;
  if (row.name == "--attention-dropout") return !has_flash(run.job);
  if (row.name == recompute_activations) return false;
  if (row.name == "--recompute-method" || row.name == "--recompute-num-layers")
    return flags.has(recompute_granularity) && flags.text(recompute_granularity) == "full" &&
           run.job.execution.recomputation == Recomputation::full;
  if (row.name == recompute_modules)
    return flags.has(recompute_activations) ||
           (flags.has(recompute_granularity) && flags.text(recompute_granularity) == "selective");
  if (row.name == "--sequence-parallel") return run.tensor > 1;
  if (row.name == "--microbatch-group-size-per-virtual-pipeline-stage") return has_chunks(run.job);
  if (row.name == "--use-precision-aware-optimizer")
    return !flags.has(offload_flag) && !is_offloaded(run.job);
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

std::map<Setting, std::string> megatron_settings(const MegatronFlags& flags, int chunks,
                                                 std::optional<int> stage_data) {
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
      {Setting::micro_batch,
       fmt::format("{}", flags.number("--micro-batch-size").value_or(1) * stage_data.value_or(1))},
      {Setting::precision, std::string(name_of(precision))},
      {Setting::matmul, std::string(name_of(matmul_format(flags)))},
      {Setting::optimizer,
       flags.has(offload_flag) && optimizer == adam ? std::string(name_of(Optimizer::adam_offload))
       : optimizer == adam
           ? std::string(name_of(traits(Target::megatron).optimizer(Optimizer::adam_16, precision)))
           : optimizer},
      {Setting::pipeline, number("--pipeline-model-parallel-size")},
      {Setting::tensor, number("--tensor-model-parallel-size")},
      {Setting::context, number("--context-parallel-size")},
      {Setting::context_exchange, context_exchange(word(context_comm_flag, "p2p"))},
      {Setting::expert, number("--expert-model-parallel-size")},
      {Setting::expert_dispatch, word(dispatcher_flag, "") == "flex" ? "hierarchical" : "flat"},
      {Setting::schedule, std::string(name_of(schedule))},
      {Setting::chunks, chunks > 1 ? fmt::format("{}", chunks) : ""},
      {Setting::optimizer_sharding, flags.has("--use-distributed-optimizer") ? "zero1" : "none"},
      {Setting::overlap, is_given("--overlap-grad-reduce")},
      {Setting::tied_embedding_sync,
       flags.has("--untie-embeddings-and-output-weights") && !flags.has(prediction_flag) ? "false" : "true"},
      {Setting::sequence_parallel, has_groups ? is_given("--sequence-parallel") : "true"},
      {Setting::recompute, flags.has(recompute_activations) || word(recompute_granularity, "") == "selective"
                               ? selective_recomputation(flags)
                               : word(recompute_granularity, "none")},
      {Setting::recompute_layers,
       word("--recompute-method", "") == "block" ? word("--recompute-num-layers", "") : ""}};
}

std::vector<std::string> megatron_differences(const MegatronFlags& flags, const MegatronRun& run) {
  std::vector<std::string> lines;
  const bool is_transformer = std::holds_alternative<Transformer>(run.job.model);
  for (const MegatronSettingFlag& row :
       is_transformer ? megatron_setting_flags() : std::span<const MegatronSettingFlag>(execution_flags)) {
    if (!matters(flags, row, run)) continue;
    const Value by_default = row.by_default ? Value(row.by_default(flags, run)) : std::nullopt;
    const Value expected = row.value(run) ? row.value(run) : by_default, found = value_in(flags, row, run);
    if (is_equal(flags, row, run, expected, found)) continue;
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
