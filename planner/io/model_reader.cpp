#include "planner/io/model_reader.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "planner/core/index.hpp"
#include "planner/io/suggest.hpp"

namespace dtfm {
namespace {

using nlohmann::ordered_json;

constexpr int most_layers = 100'000, most_width = 10'000'000, most_count = 1'000'000'000;
constexpr double most_parameters = 1e18;  // of a layer

int required_count(const YamlMap& map, std::string_view key, int most) {
  return static_cast<int>(map.required(key).integer(1, most));
}

int count_or(const YamlMap& map, std::string_view key, int most, int otherwise) {
  const auto value = map.optional(key);
  return value ? static_cast<int>(value->integer(1, most)) : otherwise;
}

bool flag_or(const YamlMap& map, std::string_view key, bool otherwise) {
  const auto value = map.optional(key);
  return value ? value->boolean() : otherwise;
}

void check_divides(const YamlMap& map, std::string_view key, int part, std::string_view of, int whole) {
  if (whole % part != 0)
    throw map.required(key).value_error(fmt::format("{} {} do not divide {} {}", part, key, of, whole));
}

/// The keys of a transformer but for its kind and its number of layers.
void read_sizes(const YamlMap& map, Transformer& model) {
  model.hidden = required_count(map, "hidden", most_width);
  model.heads = required_count(map, "heads", most_width);
  model.sequence = required_count(map, "sequence", most_count);
  model.vocabulary = required_count(map, "vocabulary", most_count);
  check_divides(map, "heads", model.heads, "hidden", model.hidden);
  model.kv_heads = count_or(map, "kv_heads", most_width, 0);
  if (model.kv_heads > 0) check_divides(map, "kv_heads", model.kv_heads, "heads", model.heads);
  model.feed_forward = count_or(map, "feed_forward", most_width, 0);
  model.gated = flag_or(map, "gated", model.gated);
  model.biases = flag_or(map, "biases", model.biases);
  model.tied = flag_or(map, "tied", model.tied);
  model.encoder = flag_or(map, "encoder", model.encoder);
  if (const auto norm = map.optional("norm")) model.rms_norm = norm->choice({"layer", "rms"}) == 1;
  if (const auto attention = map.optional("attention"))
    model.flash_attention = attention->choice({"eager", "flash"}) == 1;
  if (const auto positions = map.optional("positions")) {
    model.learned_positions = !positions->is_word("rotary");
    if (model.learned_positions) model.positions = static_cast<int>(positions->integer(1, most_count));
  }
}

Transformer read_transformer(const YamlValue& value) {
  const YamlMap map =
      value.map({"kind", "layers", "hidden", "heads", "sequence", "vocabulary", "kv_heads", "feed_forward",
                 "gated", "biases", "tied", "encoder", "norm", "attention", "positions"});
  Transformer model;
  model.layers = required_count(map, "layers", most_layers);
  read_sizes(map, model);
  return model;
}

Layer read_layer(const YamlMap& map) {
  Layer layer;
  layer.name = "layer";
  if (const auto name = map.optional("name")) layer.name = name->text();
  layer.parameters = map.required("parameters").number(0, most_parameters);
  layer.forward = map.required("forward_flops").flops();
  const auto backward = map.optional("backward_flops");
  layer.backward = backward ? backward->flops() : 2 * layer.forward;
  layer.output = map.required("output").bytes();
  layer.activation_memory = map.required("activation_memory").bytes();
  return layer;
}

LayerChain read_layers(const YamlValue& value) {
  const YamlMap map = value.map({"kind", "layers", "sequence"});
  LayerChain model;
  model.sequence = count_or(map, "sequence", most_count, 1);
  const YamlValue layers = map.required("layers");
  for (const YamlValue& item : layers.list()) {
    const YamlMap entry = item.map(
        {"name", "parameters", "forward_flops", "backward_flops", "output", "activation_memory", "repeat"});
    const int repeat = count_or(entry, "repeat", most_count, 1);
    if (repeat > most_layers - static_cast<int>(model.layers.size()))
      throw entry.error(fmt::format("more than {} layers in all", most_layers));
    model.layers.insert(model.layers.end(), at(repeat), read_layer(entry));
  }
  if (model.layers.empty()) throw layers.value_error("must not be empty");
  return model;
}

std::string size_text(Bytes size) {
  return fmt::format("{} B", size.value());
}

std::string flops_text(Flops flops) {
  return fmt::format("{} FLOP", flops.value());
}

ordered_json layer_json(const Layer& layer, int repeat) {
  ordered_json json = {{"name", layer.name},
                       {"parameters", layer.parameters},
                       {"forward_flops", flops_text(layer.forward)},
                       {"backward_flops", flops_text(layer.backward)},
                       {"output", size_text(layer.output)},
                       {"activation_memory", size_text(layer.activation_memory)}};
  if (repeat > 1) json["repeat"] = repeat;
  return json;
}

/// Layers that are alike and follow each other are one entry.
ordered_json chain_json(const LayerChain& model) {
  ordered_json layers = ordered_json::array();
  for (auto begin = model.layers.begin(); begin != model.layers.end();) {
    const auto end = std::find_if(begin, model.layers.end(), [&](const Layer& l) { return !(l == *begin); });
    layers.push_back(layer_json(*begin, static_cast<int>(end - begin)));
    begin = end;
  }
  return {{"kind", "layers"}, {"sequence", model.sequence}, {"layers", std::move(layers)}};
}

}  // namespace

Model read_model(const YamlValue& value) {
  for (const auto& [key, kind] : value.entries()) {
    if (!key.is_word("kind")) continue;
    switch (kind.choice({"transformer", "layers", "graph"})) {
      case 0:
        return read_transformer(value);
      case 1:
        return read_layers(value);
      default:
        throw kind.value_error(
            fmt::format("{} is not supported yet by this version; `transformer` and `layers` are",
                        in_quotes(kind.text())));
    }
  }
  throw value.error("`kind` is missing: transformer or layers");
}

Transformer read_shape(const YamlValue& value) {
  Transformer shape;
  read_sizes(value.map({"hidden", "heads", "sequence", "vocabulary", "kv_heads", "feed_forward", "gated",
                        "biases", "tied", "encoder", "norm", "attention", "positions"}),
             shape);
  return shape;
}

ordered_json shape_json(const Transformer& model) {
  ordered_json json = {{"hidden", model.hidden},
                       {"heads", model.heads},
                       {"sequence", model.sequence},
                       {"vocabulary", model.vocabulary}};
  const Transformer usual;
  if (model.kv_heads > 0) json["kv_heads"] = model.kv_heads;
  if (model.feed_forward > 0) json["feed_forward"] = model.feed_forward;
  if (model.gated != usual.gated) json["gated"] = model.gated;
  if (model.biases != usual.biases) json["biases"] = model.biases;
  if (model.tied != usual.tied) json["tied"] = model.tied;
  if (model.encoder != usual.encoder) json["encoder"] = model.encoder;
  if (model.rms_norm) json["norm"] = "rms";
  if (model.flash_attention) json["attention"] = "flash";
  if (!model.learned_positions)
    json["positions"] = "rotary";
  else if (model.positions > 0)
    json["positions"] = model.positions;
  return json;
}

ordered_json model_json(const Model& model) {
  if (const auto* chain = std::get_if<LayerChain>(&model)) return chain_json(*chain);
  const auto& transformer = std::get<Transformer>(model);
  ordered_json json = {{"kind", "transformer"}, {"layers", transformer.layers}};
  json.update(shape_json(transformer));
  return json;
}

}  // namespace dtfm
