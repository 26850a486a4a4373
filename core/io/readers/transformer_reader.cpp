#include "core/io/readers/transformer_reader.hpp"

#include <iterator>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace dtfm::io {
namespace {

using nlohmann::ordered_json;

constexpr int max_layers = 100'000, max_width = 10'000'000, max_count = 1'000'000'000;

constexpr std::string_view shape_keys[] = {
    "hidden", "heads", "sequence", "vocabulary", "kv_heads", "head_dim",  "feed_forward",      "gated",
    "biases", "tied",  "encoder",  "norm",       "qk_norm",  "attention", "attention_dropout", "positions"};

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

void read_sizes(const YamlMap& map, Transformer& model) {
  require_number(map, "hidden", max_width, model.hidden);
  require_number(map, "heads", max_width, model.heads);
  require_number(map, "sequence", max_count, model.sequence);
  require_number(map, "vocabulary", max_count, model.vocabulary);
  read_number(map, "head_dim", max_width, model.head_dim);
  if (model.head_dim == 0 && model.hidden % model.heads != 0)
    throw contradiction_error(map, "heads", "hidden",
                              fmt::format("{} heads do not divide hidden {}; give their width as head_dim",
                                          model.heads, model.hidden));
  read_number(map, "kv_heads", max_width, model.kv_heads);
  if (model.kv_heads > 0) check_divides(map, "kv_heads", model.kv_heads, "heads", model.heads);
  read_number(map, "feed_forward", max_width, model.feed_forward);
  read_flag(map, "gated", model.gated);
  read_flag(map, "biases", model.biases);
  read_flag(map, "tied", model.tied);
  read_flag(map, "encoder", model.encoder);
  read_flag(map, "qk_norm", model.qk_norm);
  if (const auto norm = map.optional("norm")) model.rms_norm = norm->choice({"layer", "rms"}) == 1;
  if (const auto attention = map.optional("attention"))
    model.flash_attention = attention->choice({"eager", "flash"}) == 1;
  read_flag(map, "attention_dropout", model.attention_dropout);
  read_positions(map, model);
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
  if (model.gated != defaults.gated) json["gated"] = model.gated;
  if (model.biases != defaults.biases) json["biases"] = model.biases;
  if (model.tied != defaults.tied) json["tied"] = model.tied;
  if (model.encoder != defaults.encoder) json["encoder"] = model.encoder;
  if (model.rms_norm) json["norm"] = "rms";
  if (model.qk_norm) json["qk_norm"] = true;
  if (model.flash_attention) json["attention"] = "flash";
  if (model.attention_dropout != defaults.attention_dropout)
    json["attention_dropout"] = model.attention_dropout;
  if (!model.learned_positions)
    json["positions"] = "rotary";
  else if (model.positions > 0)
    json["positions"] = model.positions;
  return json;
}

}  // namespace dtfm::io
