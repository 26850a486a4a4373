#include "core/io/readers/model_families.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "core/base/error.hpp"
#include "core/io/text/yaml_reader.hpp"

namespace dtfm::io {

extern const std::string_view model_families_yaml;

namespace {

using nlohmann::ordered_json;

/// A value of the table: numbers and `true`, `false` and `null` are such, everything else is text.
template <class Json>
Json to_json(const YamlValue& value) {
  if (value.is_map()) {
    Json json = Json::object();
    for (const auto& [key, item] : value.entries()) json[key.text()] = to_json<Json>(item);
    return json;
  }
  if (value.is_list()) {
    Json json = Json::array();
    for (const YamlValue& item : value.list()) json.push_back(to_json<Json>(item));
    return json;
  }
  if (!value.is_scalar()) return nullptr;
  const std::string text = value.text();
  Json json = Json::parse(text, nullptr, false);
  return json.is_discarded() ? Json(text) : json;
}

std::vector<std::string> read_words(const YamlValue& value) {
  std::vector<std::string> words;
  if (!value.is_list()) return {value.text()};
  for (const YamlValue& word : value.list()) words.push_back(word.text());
  return words;
}

std::map<std::string, std::vector<std::string>> read_keys(const YamlValue& value) {
  std::map<std::string, std::vector<std::string>> keys;
  for (const auto& [key, targets] : value.entries()) keys[key.text()] = read_words(targets);
  return keys;
}

ModelFamily read_family(const YamlValue& value) {
  const YamlMap map = value.map({"types", "form", "defaults", "keys", "model", "when", "position_offset"});
  ModelFamily family;
  family.types = read_words(map.required("types"));
  if (const auto form = map.optional("form"))
    family.form = static_cast<FamilyForm>(form->choice({"decoder", "t5", "umt5", "vit"}));
  family.defaults = to_json<nlohmann::json>(map.required("defaults"));
  if (const auto keys = map.optional("keys")) family.keys = read_keys(*keys);
  if (const auto model = map.optional("model")) family.model = to_json<ordered_json>(*model);
  if (const auto offset = map.optional("position_offset"))
    family.position_offset = static_cast<int>(offset->integer(-1000, 1000));
  if (const auto when = map.optional("when")) family.when = to_json<ordered_json>(*when);
  return family;
}

ModelFamilies read_families() {
  const YamlDocument document(std::string(model_families_yaml), "configs/model-families.yaml");
  const YamlMap root =
      versioned_map(document, "a table of model families", {"version", "keys", "ignored", "families"});
  ModelFamilies table;
  table.keys = read_keys(root.required("keys"));
  table.ignored = read_words(root.required("ignored"));
  for (const YamlValue& family : root.required("families").list())
    table.families.push_back(read_family(family));
  return table;
}

/// `DeepseekV3ForCausalLM` as `deepseekv3`, and `deepseek_v3` as well.
std::string plain_name(std::string_view name) {
  for (const std::string_view end : {"For", "LMHead"})
    if (const std::size_t at = name.rfind(end); at != std::string_view::npos && at > 0)
      name = name.substr(0, at);
  std::string plain;
  for (const char letter : name)
    if (letter != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return plain;
}

/// Whether `key` matches `pattern`, which may begin and end with `*`.
bool matches(std::string_view key, std::string_view pattern) {
  const bool any_begin = pattern.starts_with('*'), any_end = pattern.size() > 1 && pattern.ends_with('*');
  pattern.remove_prefix(any_begin ? 1 : 0);
  pattern.remove_suffix(any_end ? 1 : 0);
  if (any_begin && any_end) return key.find(pattern) != std::string_view::npos;
  if (any_begin) return key.ends_with(pattern);
  return any_end ? key.starts_with(pattern) : key == pattern;
}

}  // namespace

const ModelFamilies& model_families() {
  static const ModelFamilies table = read_families();
  return table;
}

const ModelFamily* find_family(std::string_view type, std::string_view architecture) {
  const auto& families = model_families().families;
  const auto find = [&](const auto& is_it) -> const ModelFamily* {
    for (const ModelFamily& family : families)
      if (std::any_of(family.types.begin(), family.types.end(), is_it)) return &family;
    return nullptr;
  };
  if (const ModelFamily* family = find([&](const std::string& name) { return name == type; })) return family;
  return find(
      [plain = plain_name(architecture)](const std::string& name) { return plain_name(name) == plain; });
}

bool is_ignored(std::string_view key) {
  const auto& patterns = model_families().ignored;
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches(key, pattern); });
}

}  // namespace dtfm::io
