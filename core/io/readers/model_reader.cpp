#include "core/io/readers/model_reader.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/base/kind_table.hpp"
#include "core/model/operator_graph.hpp"
#include "core/io/readers/hf_config.hpp"
#include "core/io/readers/model_presets.hpp"
#include "core/io/readers/operator_graph_reader.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

using nlohmann::ordered_json;

constexpr int max_dimension = 1'000'000'000;
constexpr double max_parameters = 1e18;  // per layer

int read_count_or(const YamlMap& map, std::string_view key, int max_value, int default_value) {
  const auto value = map.optional(key);
  return value ? static_cast<int>(value->integer(1, max_value)) : default_value;
}

/// Returns the value of `key`, or zero if it is missing. Throws Error if it exceeds `whole`, of which it is a
/// part.
template <class Quantity>
Quantity read_part(Quantity whole, const YamlMap& map, std::string_view key,
                   Quantity (YamlValue::*read)() const) {
  const auto value = map.optional(key);
  const Quantity part = value ? ((*value).*read)() : Quantity();
  if (part > whole) throw value->value_error("exceeds the total of which it is a part");
  return part;
}

Layer read_layer(const YamlMap& map) {
  Layer layer;
  layer.name = "layer";
  if (const auto name = map.optional("name")) layer.name = name->text();
  layer.parameters = map.required("parameters").number(0, max_parameters);
  if (const auto tied = map.optional("tied_parameters")) {
    layer.tied_parameters = tied->number(0, max_parameters);
    if (layer.tied_parameters > layer.parameters)
      throw tied->value_error("exceeds the total of which it is a part");
  }
  layer.forward = map.required("forward_flops").flops();
  const auto backward = map.optional("backward_flops");
  layer.backward = backward ? backward->flops() : 2 * layer.forward;
  if (const auto flops = map.optional("orthogonalization_flops")) layer.orthogonalization = flops->flops();
  layer.head = read_part(layer.forward, map, "head_flops", &YamlValue::flops);
  layer.attention = read_part(layer.forward - layer.head, map, "attention_flops", &YamlValue::flops);
  layer.output = map.required("output").bytes();
  layer.activation_memory = map.required("activation_memory").bytes();
  layer.attention_memory = read_part(layer.activation_memory, map, "attention_memory", &YamlValue::bytes);
  if (const auto replicated = map.optional("replicated_memory")) {
    layer.replicated_memory = replicated->bytes();
    if (layer.replicated_memory > layer.activation_memory - layer.attention_memory)
      throw replicated->value_error("must be at most `activation_memory` − `attention_memory`");
  }
  return layer;
}

/// Sets `input`, `input_size` and `sequence` of a chain. Throws Error for images in sequences of several.
void read_input(const YamlMap& map, LayerChain& model) {
  if (const auto input = map.optional("input"))
    model.input = model_input_table()[input->choice(names_in(model_input_table()))].kind;
  if (const auto size = map.optional("input_size")) model.input_size = size->bytes();
  model.sequence = read_count_or(map, "sequence", max_dimension, 1);
  if (model.input == ModelInput::images && model.sequence != 1)
    throw map.required("sequence")
        .value_error("images have no sequence; remove `sequence`, or set `input` to tokens");
}

LayerChain read_layers(const YamlValue& value) {
  const YamlMap map = value.map({"kind", "layers", "input", "input_size", "sequence"});
  LayerChain model;
  read_input(map, model);
  const YamlValue layers = map.required("layers");
  for (const YamlValue& item : layers.list()) {
    const YamlMap entry =
        item.map({"name", "parameters", "forward_flops", "backward_flops", "output", "activation_memory",
                  "repeat", "attention_flops", "head_flops", "tied_parameters", "orthogonalization_flops",
                  "attention_memory", "replicated_memory"});
    const int repeat = read_count_or(entry, "repeat", max_dimension, 1);
    if (repeat > max_layers - static_cast<int>(model.layers.size()))
      throw entry.error(fmt::format("more than {} layers in all", max_layers));
    model.layers.insert(model.layers.end(), at(repeat), read_layer(entry));
  }
  if (model.layers.empty()) throw layers.value_error("must not be empty");
  return model;
}

LayerChain read_graph(const YamlValue& value, const FileReader& open_file) {
  constexpr int max_live_tensors = 1000;
  const YamlMap map = value.map({"kind", "file", "input", "input_size", "sequence", "live_tensors"});
  LayerChain model;
  read_input(map, model);
  NamedFile file = open_file(map.required("file"));
  const OperatorGraph graph = parse_operator_graph(std::move(file.text), std::move(file.path));
  model.layers = partition_into_layers(graph, read_count_or(map, "live_tensors", max_live_tensors, 1));
  return model;
}

std::string format_size(Bytes size) {
  return fmt::format("{} B", size.value());
}

std::string format_flops(Flops flops) {
  return fmt::format("{} FLOP", flops.value());
}

ordered_json layer_json(const Layer& layer, int repeat) {
  ordered_json json = {{"name", layer.name},
                       {"parameters", layer.parameters},
                       {"forward_flops", format_flops(layer.forward)},
                       {"backward_flops", format_flops(layer.backward)},
                       {"output", format_size(layer.output)},
                       {"activation_memory", format_size(layer.activation_memory)}};
  if (layer.tied_parameters > 0) json["tied_parameters"] = layer.tied_parameters;
  if (layer.attention.value() > 0) json["attention_flops"] = format_flops(layer.attention);
  if (layer.head.value() > 0) json["head_flops"] = format_flops(layer.head);
  if (layer.orthogonalization.value() > 0)
    json["orthogonalization_flops"] = format_flops(layer.orthogonalization);
  if (layer.attention_memory.value() > 0) json["attention_memory"] = format_size(layer.attention_memory);
  if (layer.replicated_memory.value() > 0) json["replicated_memory"] = format_size(layer.replicated_memory);
  if (repeat > 1) json["repeat"] = repeat;
  return json;
}

/// Consecutive equal layers become one entry with `repeat`.
ordered_json chain_json(const LayerChain& model) {
  ordered_json layers = ordered_json::array();
  for (auto begin = model.layers.begin(); begin != model.layers.end();) {
    const auto end = std::find_if(begin, model.layers.end(), [&](const Layer& l) { return !(l == *begin); });
    layers.push_back(layer_json(*begin, static_cast<int>(end - begin)));
    begin = end;
  }
  ordered_json json = ordered_json::object();
  json["kind"] = "layers";
  if (model.input != ModelInput::tokens) json["input"] = name_of(model.input);
  if (model.input_size.value() > 0) json["input_size"] = format_size(model.input_size);
  json["sequence"] = model.sequence;
  json["layers"] = std::move(layers);
  return json;
}

/// `{hf: config.json, …}`: other keys override what the file says.
Model read_hf(const YamlValue& value, double element_bytes, const FileReader& open_file) {
  const YamlMap map = value.map(transformer_keys({"hf"}));
  const NamedFile file = open_file(map.required("hf"));
  std::optional<int> sequence;
  if (const auto given = map.optional("sequence"))
    sequence = static_cast<int>(given->integer(1, max_dimension));
  Model model = parse_hf_config(file.text, file.path, sequence, element_bytes);
  if (auto* transformer = std::get_if<Transformer>(&model))
    return read_transformer(map, std::move(*transformer));
  for (const auto& [key, item] : value.entries())
    if (!key.is_word("hf") && !key.is_word("sequence"))
      throw key.error("only `sequence` can be changed in a model that is not a decoder");
  return model;
}

std::optional<YamlValue> find_value(const YamlValue& map, std::string_view word) {
  for (const auto& [key, value] : map.entries())
    if (key.is_word(word)) return value;
  return std::nullopt;
}

}  // namespace

Model read_model(const YamlValue& value, double element_bytes, const FileReader& open_file) {
  if (const auto preset = find_value(value, "preset")) return read_preset(value, *preset, element_bytes);
  if (find_value(value, "hf")) return read_hf(value, element_bytes, open_file);
  const auto kind = find_value(value, "kind");
  if (!kind) throw value.error("`kind` (transformer, layers or graph), `preset` or `hf` is missing");
  switch (kind->choice({"transformer", "layers", "graph"})) {
    case 0:
      return read_transformer(value.map(transformer_keys({"kind"})), {});
    case 1:
      return read_layers(value);
    default:
      return read_graph(value, open_file);
  }
}

Model read_named_model(const std::string& name, std::optional<int> sequence, double element_bytes) {
  const std::vector<std::string> presets = preset_names();
  if (std::find(presets.begin(), presets.end(), name) != presets.end()) {
    std::string text = fmt::format("preset: {}", name);
    if (sequence) text += fmt::format("\nsequence: {}", *sequence);
    const YamlDocument document(text, "--model " + name);
    return read_preset(document.root(), *find_value(document.root(), "preset"), element_bytes);
  }
  try {
    return parse_hf_config(read_file(name, yaml_size_limit), name, sequence, element_bytes);
  } catch (const Error& error) {
    std::error_code unreadable;
    if (std::filesystem::exists(name, unreadable) || name.find('/') != std::string::npos ||
        name.ends_with(".json"))
      throw;
    const std::vector<std::string_view> known(presets.begin(), presets.end());
    throw Error("--model",
                fmt::format("{} is neither a file nor a preset; {}", quote(name), suggestion(name, known)));
  }
}

ordered_json model_json(const Model& model) {
  if (const auto* chain = std::get_if<LayerChain>(&model)) return chain_json(*chain);
  const auto& transformer = std::get<Transformer>(model);
  ordered_json json = {{"kind", "transformer"}, {"layers", transformer.layers}};
  json.update(shape_json(transformer));
  return json;
}

}  // namespace dtfm::io
