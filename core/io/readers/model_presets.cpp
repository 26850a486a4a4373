#include "core/io/readers/model_presets.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/model/image_models.hpp"
#include "core/io/readers/transformer_reader.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::io {

extern const std::string_view models_yaml;

namespace {

using ChainMaker = LayerChain (*)(int image, int classes, double element_bytes);

/// Image networks, whose layers depend on the image size and the number of classes.
constexpr std::pair<std::string_view, ChainMaker> image_networks[] = {{"resnet-50", resnet_50},
                                                                      {"vgg-16", vgg_16}};
constexpr std::string_view mlp_name = "mlp";

int read_number_or(const YamlMap& map, std::string_view key, int min_value, int max_value,
                   int default_value) {
  const auto value = map.optional(key);
  return value ? static_cast<int>(value->integer(min_value, max_value)) : default_value;
}

/// Allows a `kind` that agrees with the preset, although it is redundant.
void check_kind(const YamlMap& map, std::string_view kind) {
  if (const auto value = map.optional("kind")) value->choice({kind});
}

LayerChain read_image_network(const YamlValue& value, ChainMaker make, double element_bytes) {
  constexpr int min_side = 32, max_side = 16'384, max_classes = 10'000'000;  // VGG halves the side five times
  const YamlMap map = value.map({"preset", "kind", "image", "classes"});
  check_kind(map, "layers");
  return make(read_number_or(map, "image", min_side, max_side, 224),
              read_number_or(map, "classes", 1, max_classes, 1000), element_bytes);
}

/// The default has 300 and 100 hidden units, as LeCun et al. trained on MNIST (“Gradient-Based Learning
/// Applied to Document Recognition”, Proc. IEEE, 1998, section III.C).
LayerChain read_mlp(const YamlValue& value, double element_bytes) {
  constexpr int max_width = 10'000'000;
  constexpr std::size_t max_widths = 100'001;
  const YamlMap map = value.map({"preset", "kind", "widths"});
  check_kind(map, "layers");
  std::vector<int> widths = {28 * 28, 300, 100, 10};
  if (const auto given = map.optional("widths")) {
    widths.clear();
    for (const YamlValue& width : given->list())
      widths.push_back(static_cast<int>(width.integer(1, max_width)));
    if (widths.size() < 2 || widths.size() > max_widths)
      throw given->value_error(fmt::format(
          "expected 2 to {} widths, beginning with that of the input; found {}", max_widths, widths.size()));
  }
  return mlp_model(widths, element_bytes);
}

Error unknown_preset(const YamlValue& preset) {
  const std::vector<std::string> names = preset_names();
  const std::string name = preset.text();
  const std::string_view nearest = nearest_name(name, {names.begin(), names.end()});
  std::string message = fmt::format("unknown {};", quote(name));
  if (!nearest.empty()) message += fmt::format(" did you mean {}?", quote(nearest));
  return preset.value_error(fmt::format("{} known presets: {}", message, fmt::join(names, ", ")));
}

}  // namespace

std::vector<std::pair<std::string, Transformer>> preset_transformers() {
  const YamlDocument document(std::string(models_yaml), "configs/models.yaml");
  const YamlMap root = versioned_map(document, "a table of models", {"version", "models"});
  std::vector<std::pair<std::string, Transformer>> presets;
  for (const YamlValue& item : root.required("models").list()) {
    const YamlMap map = item.map(transformer_keys({"name"}));
    presets.emplace_back(map.required("name").text(), read_transformer(map, {}));
  }
  return presets;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& entry : preset_transformers()) names.push_back(entry.first);
  for (const auto& entry : image_networks) names.emplace_back(entry.first);
  names.emplace_back(mlp_name);
  return names;
}

Model read_preset(const YamlValue& value, const YamlValue& preset, double element_bytes) {
  const std::string name = preset.text();
  for (const auto& [network, make] : image_networks)
    if (name == network) return read_image_network(value, make, element_bytes);
  if (name == mlp_name) return read_mlp(value, element_bytes);
  const auto transformers = preset_transformers();
  const auto found = std::find_if(transformers.begin(), transformers.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  if (found == transformers.end()) throw unknown_preset(preset);
  const YamlMap map = value.map(transformer_keys({"preset", "kind"}));
  check_kind(map, "transformer");
  return read_transformer(map, found->second);
}

}  // namespace dtfm::io
