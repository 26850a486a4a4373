#include "core/io/readers/hf_config.hpp"

#include <algorithm>
#include <array>
#include <set>
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

constexpr int max_size = 500'000'000;  // four times as much is an int

/// Sizes of a file before they are put together.
struct Sizes {
  Transformer model;
  int positions = 0;       // tokens that the model has positions for
  int shared_experts = 0;  // number of experts that all tokens visit, each as wide as the others
  int mamba_expansion = 0;
  int feed_forward_ratio = 0;  // width of the MLP ÷ hidden
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
    {"mamba.chunk", [](Sizes& it) -> int& { return it.model.mamba.chunk; }},
    {"mamba.expansion", [](Sizes& it) -> int& { return it.mamba_expansion; }},
    {"delta_net.key_heads", [](Sizes& it) -> int& { return it.model.delta_net.key_heads; }},
    {"delta_net.key_dim", [](Sizes& it) -> int& { return it.model.delta_net.key_dim; }},
    {"delta_net.value_heads", [](Sizes& it) -> int& { return it.model.delta_net.value_heads; }},
    {"delta_net.value_dim", [](Sizes& it) -> int& { return it.model.delta_net.value_dim; }},
    {"delta_net.convolution", [](Sizes& it) -> int& { return it.model.delta_net.convolution; }},
    {"feed_forward.ratio", [](Sizes& it) -> int& { return it.feed_forward_ratio; }},
    {"embedding_width", [](Sizes& it) -> int& { return it.model.embedding_width; }},
    {"token_types", [](Sizes& it) -> int& { return it.model.token_types; }},
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
      case FamilyForm::umt5:
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
    return family_.defaults.contains(key) || family_.keys.count(key) > 0 || family_.when.contains(key);
  }

  /// Whether a key that the family does not have sets what the file does not set otherwise: `n_layer` where
  /// the family has `num_hidden_layers`.
  static bool is_other_name(const std::string& key, const std::set<std::string>& missing) {
    const auto* targets = targets_in(model_families().keys, key);
    return targets != nullptr && std::all_of(targets->begin(), targets->end(), [&](const std::string& name) {
             return missing.count(name) > 0;
           });
  }

  /// Numbers first, because the rest is read with them; then what the family and its switches say; then what
  /// flags of the file say.
  void read_keys() {
    const std::vector<std::pair<std::string, JsonCursor>> members = config_.members("keys");
    const JsonCursor defaults(family_.defaults, config_.file());
    std::set<std::string> missing;  // what the file does not set by the family's own keys
    for (const auto& [key, value] : defaults.members("keys")) {
      const auto* targets = targets_of(key);
      if (config_.optional(key.c_str()) || targets == nullptr) continue;
      set_numbers(key, value);
      missing.insert(targets->begin(), targets->end());
    }
    for (const auto& [key, value] : members)
      if (is_of_family(key) || is_other_name(key, missing)) set_numbers(key, value);
    if (sizes_.model.layers == 0) sizes_.model.layers = listed_layers(config_, family_.defaults);
    check_layer_counts();
    if (sizes_.feed_forward_ratio > 0)
      sizes_.model.feed_forward = product(sizes_.feed_forward_ratio, sizes_.model.hidden);
    Experts& experts = sizes_.model.experts;
    if (experts.count > 0 && experts.width == 0) experts.width = mlp_width(sizes_.model);
    if (sizes_.model.latent.kv_rank > 0) sizes_.model.head_dim = sizes_.model.kv_heads = 0;
    sizes_.model.sequence = 1;  // until it is known whether the model has a table of positions
    apply(family_.model);
    apply_cases(family_.when);
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
      target->of(sizes_) = is_missing(value.value()) ? 0 : count_of(value);
    }
  }

  void check_layer_counts() const {
    for (const int layers : {sizes_.model.layers, sizes_.t5.decoder_layers})
      if (layers > max_layers) config_.fail(fmt::format("has {} layers, more than {}", layers, max_layers));
  }

  /// The product of two sizes. Throws Error if it is too large for one.
  int product(int a, int b) const {
    const long long result = static_cast<long long>(a) * b;
    if (result > max_size) config_.fail(fmt::format("a size of {} × {} is too large", a, b));
    return static_cast<int>(result);
  }

  static bool is_missing(const json& value) { return value.is_null() || value == false || value == "auto"; }

  /// An object that names things counts them; a list by layer is one number if all are equal.
  static int count_of(const JsonCursor& value) {
    if (value.value().is_object()) return static_cast<int>(value.value().size());
    if (!value.is_array()) return value.as_int(0, max_size);
    const json& list = value.value();
    if (list.empty() || std::any_of(list.begin(), list.end(), [&](const json& it) { return it != list[0]; }))
      value.fail("layers of several sizes are not supported; expected a list of equal numbers");
    return value.at(0).as_int(0, max_size);
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
    if (is_absent(value.value()) || is_block_key(key)) return;
    const auto* targets = targets_in(model_families().keys, key);
    if (targets == nullptr) {
      if (is_ignored(last_part(key))) return;
      value.fail(
          fmt::format("unknown key of model_type {}: it may change sizes or operations; remove it if it "
                      "does not",
                      family_.types.front()));
    }
    for (const std::string& name : *targets) {
      if (const auto flag = find_target(flag_targets, name); flag != std::end(flag_targets))
        check_held(value, flag->of(sizes_), value.as_bool());
      if (const auto number = find_target(number_targets, name); number != std::end(number_targets))
        check_held(value, effective(name, number->of(sizes_)), count_of(value));
    }
  }

  template <class Value>
  void check_held(const JsonCursor& value, Value held, Value given) const {
    if (held != given)
      value.fail(fmt::format("models of model_type {} do not have this key; expected {}, or no such key",
                             family_.types.front(), held));
  }

  /// `kv_n_heads` of `attn_config.kv_n_heads`.
  static std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

  int effective(const std::string& name, int value) const {
    const Transformer& model = sizes_.model;
    if (name == "kv_heads") return kv_head_count(model);
    if (name == "head_dim") return head_width(model);
    return name == "feed_forward" ? mlp_width(model) : value;
  }

  /// A table of positions limits the sequence, and so do relative positions in T5; rotary ones do not.
  void set_positions() {
    constexpr int longest_default = 4096;
    Transformer& model = sizes_.model;
    const bool limited =
        sizes_.positions > 0 && (model.learned_positions || family_.form != FamilyForm::decoder);
    const int offset = family_.position_offset,
              positions = limited ? sizes_.positions + std::min(0, offset) : longest_default;
    if (positions < 1) config_.fail(fmt::format("{} positions are too few", sizes_.positions));
    model.sequence = sequence_.value_or(std::min(longest_default, positions));
    if (!limited || family_.form != FamilyForm::decoder) return;
    if (model.sequence > positions)
      config_.fail(fmt::format("{} positions are too few for a sequence of {}", positions, model.sequence));
    model.positions = sizes_.positions + std::max(0, offset);
  }

  /// Sets keys of a job's transformer.
  void apply(const ordered_json& keys) {
    if (family_.form == FamilyForm::vit) return;
    const json values(keys);
    const YamlDocument document(JsonCursor(values, config_.file()));
    sizes_.model = read_transformer(document.root().map(transformer_keys({})), sizes_.model);
  }

  /// What the model has by the values of keys; `other` stands for all values that are not named.
  void apply_cases(const ordered_json& when) {
    for (const auto& [key, cases] : when.items()) {
      const auto given = config_.optional(key.c_str());
      const json value = given ? given->value() : family_.defaults.value(key, json());
      const std::string word =
          word_of(key == "architectures" && value.is_array() && !value.empty() ? value[0] : value);
      auto effect = cases.find(word);
      if (effect == cases.end()) effect = cases.find("other");
      if (effect == cases.end()) continue;
      if (effect->is_string())
        (given ? *given : config_)
            .fail(fmt::format("{} {} of model_type {} is not supported", key, quote(word),
                              family_.types.front()));
      ordered_json keys = *effect;
      keys.erase("when");
      apply(keys);
      if (effect->contains("when")) apply_cases((*effect)["when"]);
    }
  }

  Transformer transformer() {
    set_positions();
    Transformer& model = sizes_.model;
    model.flash_attention = true;
    model.dropout = model.attention_dropout = false;
    Experts& experts = model.experts;
    if (sizes_.shared_experts > 0) experts.shared_width = product(sizes_.shared_experts, experts.width);
    if (experts.count == 0) experts = {};
    if (model.latent.kv_rank == 0) model.latent = {};
    if (model.latent.kv_rank > 0 && model.latent.value_dim == 0)
      model.latent.value_dim = model.hidden / model.heads;
    if (model.embedding_width == model.hidden) model.embedding_width = 0;
    Mamba2& mamba = model.mamba;
    if (sizes_.mamba_expansion > 0 && mamba.heads > 0 && mamba.head_dim == 0)
      mamba.head_dim = product(sizes_.mamba_expansion, model.hidden) / mamba.heads;
    model.blocks = read_block_kinds(config_, family_.defaults, model);
    reduce_blocks(model);
    if (mamba.chunk == 0) mamba.chunk = Mamba2().chunk;
    return checked();
  }

  /// Reads the model as a job has it: that nothing is missing, and that the sizes fit each other.
  Transformer checked() {
    ordered_json keys = shape_json(sizes_.model);
    keys["layers"] = sizes_.model.layers;
    sizes_.model = {};
    apply(keys);
    return sizes_.model;
  }

  EncoderDecoder encoder_decoder() {
    set_positions();
    EncoderDecoder t5 = sizes_.t5;
    t5.tables_in_all_layers = family_.form == FamilyForm::umt5;
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
    if (classes->contains(name)) return;
  } else {
    for (const std::string_view end : {"CausalLM", "LMHeadModel", "ForConditionalGeneration"})
      if (name.ends_with(end)) return;
  }
  const auto given = config.optional("architectures");
  (given ? *given : config)
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

/// `attn_config: {kv_n_heads: 8}` as `attn_config.kv_n_heads: 8`, in families with such keys.
void flatten(json& config, const ModelFamily& family) {
  for (const auto& [name, _] : family.defaults.items()) {
    const std::string part = name.substr(0, name.find('.'));
    if (part == name || !config.contains(part) || !config[part].is_object()) continue;
    const json members = std::move(config[part]);
    config.erase(part);
    for (const auto& [key, value] : members.items()) config[part + "." + key] = value;
  }
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
  flatten(merged, family);
  return ConfigReader(JsonCursor(merged, file), family, sequence).read(element_bytes);
}

}  // namespace dtfm::io
