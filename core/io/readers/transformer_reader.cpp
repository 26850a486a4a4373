#include "core/io/readers/transformer_reader.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/kind_table.hpp"

namespace dtfm::io {
namespace {

using nlohmann::ordered_json;

constexpr int max_width = 10'000'000, max_count = 1'000'000'000, max_predicted_tokens = 16;

constexpr std::string_view shape_keys[] = {"hidden",
                                           "heads",
                                           "sequence",
                                           "vocabulary",
                                           "kv_heads",
                                           "head_dim",
                                           "gated",
                                           "feed_forward",
                                           "biases",
                                           "tied",
                                           "encoder",
                                           "pooler",
                                           "norm",
                                           "norms",
                                           "qk_norm",
                                           "embedding_norm",
                                           "experts",
                                           "final_norm",
                                           "attention",
                                           "attention_gate",
                                           "attention_sinks",
                                           "latent_attention",
                                           "window",
                                           "attention_dropout",
                                           "kernels",
                                           "dropout",
                                           "delta_net",
                                           "mamba",
                                           "blocks",
                                           "predicted_tokens",
                                           "positions",
                                           "token_types",
                                           "embedding_width",
                                           "next_sentence"};

/// A size of a nested part: its key, where it is kept, and whether it may be missing.
template <class Part>
struct PartSize {
  std::string_view key;
  int Part::*size;
  bool required = true;
};

template <class Part>
struct PartFlag {
  std::string_view key;
  bool Part::*flag;
};

constexpr PartSize<LatentAttention> latent_sizes[] = {{"kv_rank", &LatentAttention::kv_rank},
                                                      {"query_rank", &LatentAttention::query_rank, false},
                                                      {"nope_dim", &LatentAttention::nope_dim},
                                                      {"rope_dim", &LatentAttention::rope_dim},
                                                      {"value_dim", &LatentAttention::value_dim}};
constexpr std::array<PartFlag<LatentAttention>, 0> latent_flags;

constexpr PartSize<Experts> expert_sizes[] = {{"count", &Experts::count},
                                              {"per_token", &Experts::per_token},
                                              {"width", &Experts::width},
                                              {"shared_width", &Experts::shared_width, false}};
constexpr PartFlag<Experts> expert_flags[] = {{"biases", &Experts::biases},
                                              {"router_bias", &Experts::router_bias},
                                              {"shared_gate", &Experts::shared_gate}};

constexpr PartSize<Mamba2> mamba_sizes[] = {{"heads", &Mamba2::heads},
                                            {"head_dim", &Mamba2::head_dim},
                                            {"groups", &Mamba2::groups},
                                            {"state", &Mamba2::state},
                                            {"convolution", &Mamba2::convolution, false},
                                            {"chunk", &Mamba2::chunk, false}};
constexpr PartFlag<Mamba2> mamba_flags[] = {{"convolution_bias", &Mamba2::convolution_bias},
                                            {"biases", &Mamba2::biases}};

constexpr PartSize<DeltaNet> delta_net_sizes[] = {{"key_heads", &DeltaNet::key_heads},
                                                  {"key_dim", &DeltaNet::key_dim},
                                                  {"value_heads", &DeltaNet::value_heads},
                                                  {"value_dim", &DeltaNet::value_dim},
                                                  {"convolution", &DeltaNet::convolution, false}};
constexpr std::array<PartFlag<DeltaNet>, 0> delta_net_flags;

/// Matrices that may have biases, by their names in a list.
constexpr PartFlag<Biases> bias_flags[] = {
    {"qkv", &Biases::qkv}, {"output", &Biases::output}, {"mlp", &Biases::mlp}, {"head", &Biases::head}};

void read_number(const YamlMap& map, std::string_view key, int max_value, int& number) {
  if (const auto value = map.optional(key)) number = static_cast<int>(value->integer(1, max_value));
}

void require_number(const YamlMap& map, std::string_view key, int max_value, int& number) {
  if (number == 0) map.required(key);
  read_number(map, key, max_value, number);
}

void read_flag(const YamlMap& map, std::string_view key, bool& flag) {
  if (const auto value = map.optional(key)) flag = value->boolean();
}

/// Returns an Error for two contradictory keys, at the first of them that the file has.
Error contradiction_error(const YamlMap& map, std::string_view key, std::string_view other,
                          const std::string& message) {
  if (const auto value = map.optional(key)) return value->value_error(message);
  if (const auto value = map.optional(other)) return value->value_error(message);
  return map.error(message);
}

void check_divides(const YamlMap& map, std::string_view key, int part, std::string_view other_key,
                   int whole) {
  if (whole % part != 0)
    throw contradiction_error(map, key, other_key,
                              fmt::format("{} {} do not divide {} {}", part, key, other_key, whole));
}

void read_positions(const YamlMap& map, Transformer& model) {
  if (const auto positions = map.optional("positions")) {
    model.learned_positions = !positions->is_word("rotary");
    model.positions = model.learned_positions ? static_cast<int>(positions->integer(1, max_count)) : 0;
  }
  if (model.positions > 0 && model.positions < model.sequence)
    throw contradiction_error(
        map, "positions", "sequence",
        fmt::format("{} positions are too few for a sequence of {}", model.positions, model.sequence));
}

/// Reads a nested part, of which keys that are missing keep their values; `false` removes it.
template <class Part, class Sizes, class Flags>
void read_part(const YamlMap& map, std::string_view key, const Sizes& sizes, const Flags& flags, Part& part) {
  const auto value = map.optional(key);
  if (!value) return;
  if (value->is_word("false")) return void(part = {});
  std::vector<std::string_view> keys;
  for (const auto& it : sizes) keys.push_back(it.key);
  for (const auto& it : flags) keys.push_back(it.key);
  const YamlMap given = value->map(keys);
  for (const auto& it : sizes)
    it.required ? require_number(given, it.key, max_width, part.*it.size)
                : read_number(given, it.key, max_width, part.*it.size);
  for (const auto& it : flags) read_flag(given, it.key, part.*it.flag);
}

/// What differs from the defaults; empty if the model does not have the part.
template <class Part, class Sizes, class Flags>
ordered_json part_json(const Sizes& sizes, const Flags& flags, const Part& part) {
  ordered_json json = ordered_json::object();
  const Part defaults;
  if (part == defaults) return json;
  for (const auto& it : sizes)
    if (part.*it.size != defaults.*it.size) json[std::string(it.key)] = part.*it.size;
  for (const auto& it : flags)
    if (part.*it.flag != defaults.*it.flag) json[std::string(it.key)] = part.*it.flag;
  return json;
}

void read_biases(const YamlMap& map, Biases& biases) {
  const auto value = map.optional("biases");
  if (!value) return;
  if (!value->is_list()) return void(biases = value->boolean() ? Biases() : no_biases);
  std::vector<std::string_view> names;
  for (const auto& it : bias_flags) names.push_back(it.key);
  biases = no_biases;
  for (const YamlValue& name : value->list()) biases.*bias_flags[name.choice(names)].flag = true;
}

void write_biases(const Biases& biases, ordered_json& json) {
  if (biases == Biases()) return;
  if (biases == no_biases) return void(json["biases"] = false);
  json["biases"] = ordered_json::array();
  for (const auto& it : bias_flags)
    if (biases.*it.flag) json["biases"].push_back(it.key);
}

void read_experts(const YamlMap& map, Experts& experts) {
  read_part(map, "experts", expert_sizes, expert_flags, experts);
  if (experts.per_token > experts.count)
    throw contradiction_error(
        map, "experts", "experts",
        fmt::format("a token cannot visit {} of {} experts", experts.per_token, experts.count));
}

/// Throws Error if the model does not have what the block consists of.
void check_block(const YamlValue& value, const BlockKind& kind, const Transformer& model) {
  const auto require = [&](bool is_given, std::string_view key) {
    if (!is_given) throw value.error(fmt::format("such blocks require `{}` of the model", key));
  };
  if (kind == BlockKind{Mixer::none, Mlp::none}) throw value.error("a block without modules");
  if (kind.mixer == Mixer::window_attention) require(model.window > 0, "window");
  if (kind.mixer == Mixer::mamba_2) require(model.mamba.heads > 0, "mamba");
  if (kind.mixer == Mixer::delta_net) require(model.delta_net.key_heads > 0, "delta_net");
  if (kind.mlp == Mlp::experts) require(model.experts.count > 0, "experts");
}

/// The layers and what they consist of must have been read.
void read_blocks(const YamlMap& map, Transformer& model) {
  const auto value = map.optional("blocks");
  if (!value) {
    if (!model.blocks.empty() && static_cast<int>(model.blocks.size()) != model.layers)
      throw map.error(fmt::format("the model has {} layers, but `blocks` describes {}; give `blocks`, too",
                                  model.layers, model.blocks.size()));
    return;
  }
  model.blocks.clear();
  for (const YamlValue& item : value->list()) {
    const YamlMap entry = item.map({"mixer", "mlp", "repeat"});
    BlockKind kind;
    if (const auto mixer = entry.optional("mixer"))
      kind.mixer = mixer_table()[mixer->choice(names_in(mixer_table()))].kind;
    if (const auto mlp = entry.optional("mlp"))
      kind.mlp = mlp_table()[mlp->choice(names_in(mlp_table()))].kind;
    check_block(item, kind, model);
    int repeat = 1;
    read_number(entry, "repeat", max_layers, repeat);
    model.blocks.insert(model.blocks.end(), static_cast<std::size_t>(repeat), kind);
    if (model.blocks.size() > static_cast<std::size_t>(max_layers))
      throw value->value_error(fmt::format("has more than {} blocks", max_layers));
    if (model.layers > 0 && static_cast<int>(model.blocks.size()) > model.layers) break;
  }
  if (model.layers > 0 && static_cast<int>(model.blocks.size()) != model.layers)
    throw value->value_error(fmt::format("has {} blocks, but the model has {} layers",
                                         model.blocks.size() > static_cast<std::size_t>(model.layers)
                                             ? "more"
                                             : fmt::format("{}", model.blocks.size()),
                                         model.layers));
}

ordered_json blocks_json(const std::vector<BlockKind>& blocks) {
  ordered_json list = ordered_json::array();
  for (auto begin = blocks.begin(); begin != blocks.end();) {
    const auto end = std::find_if(begin, blocks.end(), [&](const BlockKind& it) { return it != *begin; });
    ordered_json entry = {{"mixer", name_of(begin->mixer)}, {"mlp", name_of(begin->mlp)}};
    if (end - begin > 1) entry["repeat"] = end - begin;
    list.push_back(std::move(entry));
    begin = end;
  }
  return list;
}

void read_sizes(const YamlMap& map, Transformer& model) {
  require_number(map, "hidden", max_width, model.hidden);
  require_number(map, "heads", max_width, model.heads);
  require_number(map, "sequence", max_count, model.sequence);
  require_number(map, "vocabulary", max_count, model.vocabulary);
  read_number(map, "head_dim", max_width, model.head_dim);
  read_number(map, "kv_heads", max_width, model.kv_heads);
  if (model.kv_heads > 0) check_divides(map, "kv_heads", model.kv_heads, "heads", model.heads);
  read_number(map, "feed_forward", max_width, model.feed_forward);
  read_number(map, "embedding_width", max_width, model.embedding_width);
  read_flag(map, "gated", model.gated);
  read_biases(map, model.biases);
  read_flag(map, "tied", model.tied);
  read_flag(map, "encoder", model.encoder);
  read_flag(map, "pooler", model.pooler);
  read_flag(map, "next_sentence", model.next_sentence);
  if (const auto types = map.optional("token_types"))
    model.token_types = static_cast<int>(types->integer(0, max_width));
  read_flag(map, "embedding_norm", model.embedding_norm);
  read_flag(map, "final_norm", model.final_norm);
  read_flag(map, "attention_gate", model.attention_gate);
  read_flag(map, "attention_sinks", model.attention_sinks);
  if (const auto norm = map.optional("norm"))
    model.norm = norm_table()[norm->choice(names_in(norm_table()))].kind;
  if (const auto norm = map.optional("qk_norm"))
    model.qk_norm = qk_norm_table()[norm->choice(names_in(qk_norm_table()))].kind;
  if (const auto norms = map.optional("norms")) {
    model.norms = static_cast<int>(norms->integer(1, 4));
    if (model.norms == 3) throw norms->value_error("expected 1, 2 or 4");
  }
  read_number(map, "window", max_count, model.window);
  if (const auto tokens = map.optional("predicted_tokens"))
    model.predicted_tokens = static_cast<int>(tokens->integer(0, max_predicted_tokens));
  read_part(map, "latent_attention", latent_sizes, latent_flags, model.latent);
  if (model.head_dim == 0 && model.latent.kv_rank == 0 && model.hidden % model.heads != 0)
    throw contradiction_error(map, "heads", "hidden",
                              fmt::format("{} heads do not divide hidden {}; give their width as head_dim",
                                          model.heads, model.hidden));
  read_part(map, "mamba", mamba_sizes, mamba_flags, model.mamba);
  read_part(map, "delta_net", delta_net_sizes, delta_net_flags, model.delta_net);
  read_experts(map, model.experts);
  if (const auto attention = map.optional("attention"))
    model.flash_attention = attention->choice({"eager", "flash"}) == 1;
  if (const auto kernels = map.optional("kernels"))
    model.eager_kernels = kernels->choice({"fused", "eager"}) == 1;
  read_flag(map, "dropout", model.dropout);
  read_flag(map, "attention_dropout", model.attention_dropout);
  read_positions(map, model);
  read_blocks(map, model);
  if (model.latent.kv_rank > 0 &&
      (model.attention_sinks || model.attention_gate || model.qk_norm != QkNorm::none))
    throw contradiction_error(map, "latent_attention", "qk_norm",
                              "latent attention has neither attention_sinks nor attention_gate nor qk_norm");
}

}  // namespace

std::vector<std::string_view> transformer_keys(std::initializer_list<std::string_view> others) {
  std::vector<std::string_view> keys(others);
  keys.emplace_back("layers");
  keys.insert(keys.end(), std::begin(shape_keys), std::end(shape_keys));
  return keys;
}

Transformer read_transformer(const YamlMap& map, Transformer model) {
  require_number(map, "layers", max_layers, model.layers);
  read_sizes(map, model);
  return model;
}

Transformer read_shape(const YamlValue& value) {
  Transformer shape;
  read_sizes(value.map(std::vector(std::begin(shape_keys), std::end(shape_keys))), shape);
  return shape;
}

ordered_json shape_json(const Transformer& model) {
  ordered_json json = {{"hidden", model.hidden},
                       {"heads", model.heads},
                       {"sequence", model.sequence},
                       {"vocabulary", model.vocabulary}};
  const Transformer defaults;
  if (model.kv_heads > 0) json["kv_heads"] = model.kv_heads;
  if (model.head_dim > 0) json["head_dim"] = model.head_dim;
  if (model.feed_forward > 0) json["feed_forward"] = model.feed_forward;
  if (model.embedding_width > 0) json["embedding_width"] = model.embedding_width;
  if (model.gated != defaults.gated) json["gated"] = model.gated;
  write_biases(model.biases, json);
  if (model.tied != defaults.tied) json["tied"] = model.tied;
  if (model.encoder != defaults.encoder) json["encoder"] = model.encoder;
  if (model.pooler != defaults.pooler) json["pooler"] = model.pooler;
  if (model.next_sentence) json["next_sentence"] = true;
  if (model.token_types != defaults.token_types) json["token_types"] = model.token_types;
  if (model.norm != defaults.norm) json["norm"] = name_of(model.norm);
  if (model.norms != defaults.norms) json["norms"] = model.norms;
  if (model.qk_norm == QkNorm::head) json["qk_norm"] = true;
  if (model.qk_norm == QkNorm::all_heads) json["qk_norm"] = name_of(model.qk_norm);
  if (model.embedding_norm) json["embedding_norm"] = true;
  if (!model.final_norm) json["final_norm"] = false;
  if (model.attention_gate) json["attention_gate"] = true;
  if (model.attention_sinks) json["attention_sinks"] = true;
  if (model.window > 0) json["window"] = model.window;
  if (model.predicted_tokens > 0) json["predicted_tokens"] = model.predicted_tokens;
  const std::pair<const char*, ordered_json> parts[] = {
      {"latent_attention", part_json(latent_sizes, latent_flags, model.latent)},
      {"experts", part_json(expert_sizes, expert_flags, model.experts)},
      {"mamba", part_json(mamba_sizes, mamba_flags, model.mamba)},
      {"delta_net", part_json(delta_net_sizes, delta_net_flags, model.delta_net)}};
  for (const auto& [key, part] : parts)
    if (!part.empty()) json[key] = part;
  if (!model.blocks.empty()) json["blocks"] = blocks_json(model.blocks);
  if (model.flash_attention) json["attention"] = "flash";
  if (model.eager_kernels) json["kernels"] = "eager";
  if (model.dropout != defaults.dropout) json["dropout"] = model.dropout;
  if (model.attention_dropout != defaults.attention_dropout)
    json["attention_dropout"] = model.attention_dropout;
  if (!model.learned_positions)
    json["positions"] = "rotary";
  else if (model.positions > 0)
    json["positions"] = model.positions;
  return json;
}

}  // namespace dtfm::io
