#include "core/io/readers/hf_config.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/io/readers/hf_blocks.hpp"
#include "core/io/readers/model_families.hpp"
#include "core/io/readers/transformer_reader.hpp"
#include "core/io/text/json_reader.hpp"
#include "core/io/text/suggest.hpp"
#include "core/model/encoder_models.hpp"

namespace dtfm::io {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int max_size = 1'000'000'000;

/// Sizes of a file before they are put together.
struct Sizes {
  Transformer model;
  int positions = 0;       // tokens that the model has positions for
  int shared_experts = 0;  // number of experts that all tokens visit, each as wide as the others
  int mamba_expansion = 0;
  EncoderDecoder t5;
  ImageEncoder vit;
};

struct NumberTarget {
  std::string_view name;
  int& (*of)(Sizes&);
};

struct FlagTarget {
  std::string_view name;
  bool& (*of)(Sizes&);
};

constexpr NumberTarget number_targets[] = {
    {"hidden", [](Sizes& it) -> int& { return it.model.hidden; }},
    {"layers", [](Sizes& it) -> int& { return it.model.layers; }},
    {"heads", [](Sizes& it) -> int& { return it.model.heads; }},
    {"kv_heads", [](Sizes& it) -> int& { return it.model.kv_heads; }},
    {"head_dim", [](Sizes& it) -> int& { return it.model.head_dim; }},
    {"feed_forward", [](Sizes& it) -> int& { return it.model.feed_forward; }},
    {"vocabulary", [](Sizes& it) -> int& { return it.model.vocabulary; }},
    {"window", [](Sizes& it) -> int& { return it.model.window; }},
    {"positions", [](Sizes& it) -> int& { return it.positions; }},
    {"predicted_tokens", [](Sizes& it) -> int& { return it.model.predicted_tokens; }},
    {"norms", [](Sizes& it) -> int& { return it.model.norms; }},
    {"experts.count", [](Sizes& it) -> int& { return it.model.experts.count; }},
    {"experts.per_token", [](Sizes& it) -> int& { return it.model.experts.per_token; }},
    {"experts.width", [](Sizes& it) -> int& { return it.model.experts.width; }},
    {"experts.shared_width", [](Sizes& it) -> int& { return it.model.experts.shared_width; }},
    {"shared_experts", [](Sizes& it) -> int& { return it.shared_experts; }},
    {"latent.kv_rank", [](Sizes& it) -> int& { return it.model.latent.kv_rank; }},
    {"latent.query_rank", [](Sizes& it) -> int& { return it.model.latent.query_rank; }},
    {"latent.nope_dim", [](Sizes& it) -> int& { return it.model.latent.nope_dim; }},
    {"latent.rope_dim", [](Sizes& it) -> int& { return it.model.latent.rope_dim; }},
    {"latent.value_dim", [](Sizes& it) -> int& { return it.model.latent.value_dim; }},
    {"mamba.heads", [](Sizes& it) -> int& { return it.model.mamba.heads; }},
    {"mamba.head_dim", [](Sizes& it) -> int& { return it.model.mamba.head_dim; }},
    {"mamba.groups", [](Sizes& it) -> int& { return it.model.mamba.groups; }},
    {"mamba.state", [](Sizes& it) -> int& { return it.model.mamba.state; }},
    {"mamba.convolution", [](Sizes& it) -> int& { return it.model.mamba.convolution; }},
    {"mamba.expansion", [](Sizes& it) -> int& { return it.mamba_expansion; }},
    {"delta_net.key_heads", [](Sizes& it) -> int& { return it.model.delta_net.key_heads; }},
    {"delta_net.key_dim", [](Sizes& it) -> int& { return it.model.delta_net.key_dim; }},
    {"delta_net.value_heads", [](Sizes& it) -> int& { return it.model.delta_net.value_heads; }},
    {"delta_net.value_dim", [](Sizes& it) -> int& { return it.model.delta_net.value_dim; }},
    {"delta_net.convolution", [](Sizes& it) -> int& { return it.model.delta_net.convolution; }},
    {"t5.decoder_layers", [](Sizes& it) -> int& { return it.t5.decoder_layers; }},
    {"t5.buckets", [](Sizes& it) -> int& { return it.t5.relative_positions; }},
    {"vit.image", [](Sizes& it) -> int& { return it.vit.image; }},
    {"vit.patch", [](Sizes& it) -> int& { return it.vit.patch; }},
    {"vit.channels", [](Sizes& it) -> int& { return it.vit.channels; }},
    {"vit.classes", [](Sizes& it) -> int& { return it.vit.classes; }},
};

constexpr FlagTarget flag_targets[] = {
    {"tied", [](Sizes& it) -> bool& { return it.model.tied; }},
    {"gated", [](Sizes& it) -> bool& { return it.model.gated; }},
    {"biases.qkv", [](Sizes& it) -> bool& { return it.model.biases.qkv; }},
    {"biases.output", [](Sizes& it) -> bool& { return it.model.biases.output; }},
    {"biases.mlp", [](Sizes& it) -> bool& { return it.model.biases.mlp; }},
    {"biases.head", [](Sizes& it) -> bool& { return it.model.biases.head; }},
    {"experts.biases", [](Sizes& it) -> bool& { return it.model.experts.biases; }},
    {"experts.router_bias", [](Sizes& it) -> bool& { return it.model.experts.router_bias; }},
    {"attention_sinks", [](Sizes& it) -> bool& { return it.model.attention_sinks; }},
    {"attention_gate", [](Sizes& it) -> bool& { return it.model.attention_gate; }},
    {"mamba.biases", [](Sizes& it) -> bool& { return it.model.mamba.biases; }},
    {"mamba.convolution_bias", [](Sizes& it) -> bool& { return it.model.mamba.convolution_bias; }},
};

template <class Targets>
auto find_target(const Targets& targets, std::string_view name) {
  return std::find_if(std::begin(targets), std::end(targets),
                      [&](const auto& it) { return it.name == name; });
}

/// Text of a value as the keys of `when` write it.
std::string word_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// Whether a value says that something is not there.
bool is_absent(const json& value) {
  return value.is_null() || value == false || value == 0 || (value.is_structured() && value.empty());
}

class ConfigReader {
 public:
  ConfigReader(const JsonCursor& config, const ModelFamily& family, std::optional<int> sequence)
      : config_(config), family_(family), sequence_(sequence) {}

  Model read(double element_bytes) {
    read_keys();
    switch (family_.form) {
      case FamilyForm::t5:
        return t5_model(encoder_decoder(), element_bytes);
      case FamilyForm::vit:
        return vit_model(image_encoder(), element_bytes);
      case FamilyForm::decoder:
        break;
    }
    return transformer();
  }

 private:
  static const std::vector<std::string>* targets_in(
      const std::map<std::string, std::vector<std::string>>& keys, const std::string& key) {
    const auto found = keys.find(key);
    return found == keys.end() ? nullptr : &found->second;
  }

  const std::vector<std::string>* targets_of(const std::string& key) const {
    const auto* own = targets_in(family_.keys, key);
    return own ? own : targets_in(model_families().keys, key);
  }

  bool is_of_family(const std::string& key) const {
    return family_.defaults.contains(key) || family_.keys.count(key) > 0 || family_.when.count(key) > 0;
  }

  /// Numbers first, because the rest is read with them; then what the family and its switches say; then what
  /// flags of the file say.
  void read_keys() {
    const std::vector<std::pair<std::string, JsonCursor>> members = config_.members("keys");
    for (const auto& [key, value] : members)
      if (is_of_family(key)) set_numbers(key, value);
    const JsonCursor defaults(family_.defaults, config_.file());
    for (const auto& [key, value] : defaults.members("keys"))
      if (!config_.optional(key.c_str())) set_numbers(key, value);
    set_positions();
    if (sizes_.model.latent.kv_rank > 0) sizes_.model.head_dim = sizes_.model.kv_heads = 0;
    apply(family_.model);
    for (const auto& [key, cases] : family_.when) apply_case(key, cases);
    for (const auto& [key, value] : defaults.members("keys"))
      if (!config_.optional(key.c_str())) set_flags(key, value);
    for (const auto& [key, value] : members)
      if (is_of_family(key)) set_flags(key, value);
    for (const auto& [key, value] : members)
      if (!is_of_family(key)) check_foreign(key, value);
  }

  void set_numbers(const std::string& key, const JsonCursor& value) {
    const auto* targets = targets_of(key);
    if (targets == nullptr) return;
    for (const std::string& name : *targets) {
      const auto target = find_target(number_targets, name);
      if (target == std::end(number_targets)) continue;
      // A missing number is 0: no such part, or the default of transformers.
      target->of(sizes_) = value.value().is_null() || value.value() == false ? 0 : value.as_int(0, max_size);
    }
  }

  void set_flags(const std::string& key, const JsonCursor& value) {
    const auto* targets = targets_of(key);
    if (targets == nullptr) return;
    for (const std::string& name : *targets) {
      const auto target = find_target(flag_targets, name);
      if (target != std::end(flag_targets)) target->of(sizes_) = !value.value().is_null() && value.as_bool();
    }
  }

  /// A key that the family does not have may repeat what holds anyway. Throws Error if it says otherwise, or
  /// if its effect is unknown.
  void check_foreign(const std::string& key, const JsonCursor& value) {
    if (is_absent(value.value()) || is_ignored(key) || is_block_key(key)) return;
    const auto* targets = targets_in(model_families().keys, key);
    if (targets == nullptr)
      value.fail(
          fmt::format("unknown key of model_type {}: it may change sizes or operations; remove it if it "
                      "does not",
                      family_.types.front()));
    for (const std::string& name : *targets) {
      const auto target = find_target(number_targets, name);
      if (target == std::end(number_targets) || !value.value().is_number_integer()) continue;
      const int held = effective(name, target->of(sizes_));
      if (held != value.as_int(0, max_size))
        value.fail(fmt::format("models of model_type {} do not have this key; expected {}, or no such key",
                               family_.types.front(), held));
    }
  }

  int effective(const std::string& name, int value) const {
    const Transformer& model = sizes_.model;
    if (name == "kv_heads") return kv_head_count(model);
    if (name == "head_dim") return head_width(model);
    return name == "feed_forward" ? mlp_width(model) : value;
  }

  /// `sequence` must be set before the family's part, which is read with it.
  void set_positions() {
    constexpr int longest_default = 4096;
    const int positions = sizes_.positions;
    sizes_.model.sequence =
        sequence_.value_or(positions > 0 ? std::min(longest_default, positions) : longest_default);
    if (positions > 0) sizes_.model.positions = positions + family_.position_offset;
  }

  /// Sets keys of a job's transformer.
  void apply(const ordered_json& keys) {
    if (family_.form != FamilyForm::decoder) return;
    const json values(keys);
    const YamlDocument document(JsonCursor(values, config_.file()));
    sizes_.model = read_transformer(document.root().map(transformer_keys({})), sizes_.model);
  }

  void apply_case(const std::string& key, const std::map<std::string, ordered_json>& cases) {
    const auto given = config_.optional(key.c_str());
    const json value = given ? given->value() : family_.defaults.value(key, json());
    const std::string word =
        word_of(key == "architectures" && value.is_array() && !value.empty() ? value[0] : value);
    const auto found = cases.find(word);
    if (found == cases.end()) return;
    if (found->second.is_null())
      (given ? *given : config_)
          .fail(fmt::format("{} {} of model_type {} is not supported", key, quote(word),
                            family_.types.front()));
    apply(found->second);
  }

  Transformer transformer() {
    Transformer& model = sizes_.model;
    model.flash_attention = true;
    model.attention_dropout = false;
    Experts& experts = model.experts;
    if (experts.count > 0 && experts.width == 0) experts.width = mlp_width(model);
    if (sizes_.shared_experts > 0) experts.shared_width = sizes_.shared_experts * experts.width;
    if (experts.count == 0) experts = {};
    if (model.latent.kv_rank == 0) model.latent = {};
    Mamba2& mamba = model.mamba;
    if (sizes_.mamba_expansion > 0 && mamba.heads > 0 && mamba.head_dim == 0)
      mamba.head_dim = sizes_.mamba_expansion * model.hidden / mamba.heads;
    model.blocks = read_block_kinds(config_, family_.defaults, model);
    reduce_blocks(model);
    apply(ordered_json::object());  // checks that the sizes fit each other
    return model;
  }

  EncoderDecoder encoder_decoder() {
    EncoderDecoder t5 = sizes_.t5;
    const Transformer& model = sizes_.model;
    t5.encoder_layers = model.layers;
    if (t5.decoder_layers == 0) t5.decoder_layers = model.layers;
    t5.hidden = model.hidden;
    t5.heads = model.heads;
    t5.head_dim = model.head_dim > 0 ? model.head_dim : model.hidden / std::max(1, model.heads);
    t5.feed_forward = mlp_width(model);
    t5.vocabulary = model.vocabulary;
    t5.tied = model.tied;
    t5.gated = model.gated;
    t5.sequence = model.sequence;
    require_positive({t5.encoder_layers, t5.hidden, t5.heads, t5.vocabulary});
    return t5;
  }

  ImageEncoder image_encoder() {
    ImageEncoder vit = sizes_.vit;
    const Transformer& model = sizes_.model;
    vit.layers = model.layers;
    vit.hidden = model.hidden;
    vit.heads = model.heads;
    vit.feed_forward = mlp_width(model);
    vit.qkv_bias = model.biases.qkv;
    require_positive({vit.layers, vit.hidden, vit.heads, vit.image, vit.patch, vit.channels, vit.classes});
    if (vit.image % vit.patch != 0)
      config_.fail(fmt::format("patches of {} do not divide an image of {}", vit.patch, vit.image));
    return vit;
  }

  void require_positive(std::initializer_list<int> sizes) const {
    if (std::any_of(sizes.begin(), sizes.end(), [](int size) { return size == 0; }))
      config_.fail("a size of the model is 0");
  }

  const JsonCursor& config_;
  const ModelFamily& family_;
  std::optional<int> sequence_;
  Sizes sizes_;
};

std::string text_at(const JsonCursor& config, const char* key) {
  const auto value = config.optional(key);
  return value && value->is_string() ? value->as_string() : "";
}

std::string first_architecture(const JsonCursor& config) {
  const auto list = config.optional("architectures");
  if (!list || !list->is_array() || list->array_size("classes") == 0) return "";
  const JsonCursor first = list->at(0);
  return first.is_string() ? first.as_string() : "";
}

/// The part that describes a language model: of a multimodal model, its nested one.
JsonCursor language_part(const JsonCursor& config) {
  for (const char* key : {"text_config", "llm_config", "language_config"})
    if (const auto part = config.optional(key); part && part->value().is_object()) return *part;
  return config;
}

/// Classes for which the table holds: language models and what families name.
void check_architecture(const JsonCursor& config, const ModelFamily& family, const std::string& name) {
  if (name.empty()) return;
  if (const auto classes = family.when.find("architectures"); classes != family.when.end()) {
    if (classes->second.count(name) > 0) return;
  } else {
    for (const std::string_view end : {"CausalLM", "LMHeadModel", "ForConditionalGeneration"})
      if (name.ends_with(end)) return;
  }
  config.required("architectures")
      .fail(fmt::format("class {} is not supported: only language models are{}", quote(name),
                        family.form == FamilyForm::vit ? ", and ForImageClassification" : ""));
}

const ModelFamily& require_family(const JsonCursor& config, const std::string& type,
                                  const std::string& architecture) {
  if (const ModelFamily* family = find_family(type, architecture)) return *family;
  std::vector<std::string_view> known;
  for (const ModelFamily& family : model_families().families)
    for (const std::string& name : family.types) known.emplace_back(name);
  if (type.empty()) config.fail(fmt::format("missing key `model_type`; known: {}", fmt::join(known, ", ")));
  config.required("model_type")
      .fail(fmt::format("unknown model_type {}; {}", quote(type), suggestion(type, known)));
}

}  // namespace

Model parse_hf_config(const std::string& text, const std::string& file, std::optional<int> sequence,
                      double element_bytes) {
  const json document = parse_json(text, file);
  const JsonCursor whole(document, file);
  const JsonCursor config = language_part(whole);
  std::string type = text_at(config, "model_type"), architecture = first_architecture(config);
  if (type.empty()) type = text_at(whole, "model_type");
  if (architecture.empty()) architecture = first_architecture(whole);
  const ModelFamily& family = require_family(config, type, architecture);
  check_architecture(config, family, architecture);
  // A multimodal model ties what it says outside of the part for text.
  json merged = config.value();
  if (!merged.is_object()) config.fail("expected an object");
  if (!merged.contains("tie_word_embeddings") && document.contains("tie_word_embeddings"))
    merged["tie_word_embeddings"] = document["tie_word_embeddings"];
  return ConfigReader(JsonCursor(merged, file), family, sequence).read(element_bytes);
}

}  // namespace dtfm::io
