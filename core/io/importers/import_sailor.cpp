// Imports profiles of Sailor (SOSP 2025, github.com/eth-easl/sailor), profiles/MODEL/GPU/profile.json:
//   {"micro-batch": {"tensor degree": {"layer": [forward s, backward s, update s]}}}
// Layer 0 is the embedding, the last one the head.
#include <cctype>
#include <charconv>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/io/importers/import_profile.hpp"
#include "core/io/text/json_reader.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::io {
namespace {

using Phase = LayerSamples::Phase;

constexpr int max_size = 1'000'000;

/// Parses `key`, the key of `cursor`, as an integer from `min_value` to max_size. Throws Error otherwise.
int parse_key(const std::string& key, const JsonCursor& cursor, int min_value, std::string_view what) {
  int number = -1;
  const auto [end, status] = std::from_chars(key.data(), key.data() + key.size(), number);
  const bool is_plain = !key.empty() && (key == "0" || (key[0] != '0' && key[0] != '-'));
  if (!is_plain || status != std::errc() || end != key.data() + key.size() || number < min_value ||
      number > max_size)
    cursor.fail(fmt::format("expected a {} from {} to {}; found {}", what, min_value, max_size, quote(key)));
  return number;
}

double read_time(const JsonCursor& times, Phase phase) {
  return times.at(static_cast<std::size_t>(phase)).as_number(0, max_imported_seconds);
}

/// In the published files all layers, including embedding and head, have the same update time: that of
/// everything that ran together (about two blocks and both ends), not that of a layer.
bool has_distinct_updates(const std::vector<std::pair<std::string, JsonCursor>>& layers) {
  std::set<double> updates;
  for (const auto& [key, times] : layers) {
    if (times.array_size("seconds: forward, backward, update") != 3)
      times.fail("expected the times of forward, backward and update");
    updates.insert(read_time(times, Phase::update));
  }
  return layers.size() == 1 || updates.size() > 1;
}

void read_layers(const JsonCursor& value, const std::vector<int>& kinds, int micro_batch, int tensor,
                 LayerSamples& samples) {
  const auto layers = value.members("layers");
  if (layers.size() != kinds.size())
    value.fail(fmt::format("expected {} layers, including embedding and head; found {}", kinds.size(),
                           layers.size()));
  const bool has_updates = has_distinct_updates(layers);
  for (const auto& [key, times] : layers) {
    const int layer = parse_key(key, times, 0, "layer");
    if (at(layer) >= kinds.size())
      times.fail(fmt::format("expected a layer from 0 to {}; found {}", kinds.size() - 1, quote(key)));
    for (const Phase phase : {Phase::forward, Phase::backward})
      samples.add(kinds[at(layer)], micro_batch, tensor, phase, read_time(times, phase));
    if (has_updates)
      samples.add(kinds[at(layer)], micro_batch, tensor, Phase::update, read_time(times, Phase::update));
  }
}

}  // namespace

LayerProfile import_sailor(std::span<const ImportFile> files, const ImportSettings& settings) {
  const auto& [name, text] = files.front();
  const LayerKinds kinds = layer_kinds(settings.job.model, bytes_per_element(settings.job.training));
  const std::vector<int> listed = kinds_in_profiler_order(kinds);
  LayerSamples samples(kinds);
  const nlohmann::json root = parse_json(text, name);
  for (const auto& [micro_batch, degrees] : JsonCursor(root, name).members("micro-batches"))
    for (const auto& [tensor, layers] : degrees.members("tensor degrees"))
      read_layers(layers, listed, parse_key(micro_batch, degrees, 1, "micro-batch"),
                  parse_key(tensor, layers, 1, "tensor degree"), samples);
  LayerProfile profile = make_imported_profile(
      files, settings, "Sailor",
      "medians over the layers of a kind, spread between their 10th and 90th percentile; backward "
      "assumed to be without recomputation; update times that are equal for all layers are excluded, because "
      "they cover several layers");
  profile.rows = samples.rows(name);
  profile.includes_all_reduces = has_tensor_parallelism(profile);
  return profile;
}

}  // namespace dtfm::io
