#include "core/io/readers/profile_reader.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/kind_table.hpp"
#include "core/io/readers/model_reader.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

using nlohmann::ordered_json;

constexpr double max_seconds = 1e6, max_bytes = 1e18;
constexpr int max_tensor = 1'000'000, max_micro_batch = 1'000'000'000;
constexpr std::size_t max_text_length = 4096;

/// Reads the keys `what`_s and `what`_spread_s; nullopt if the former is missing.
std::optional<Timing> optional_timing(const YamlMap& row, const std::string& what) {
  const auto median = row.optional(what + "_s");
  const auto spread = row.optional(what + "_spread_s");
  const double spread_s = spread ? spread->number(0, max_seconds) : 0;
  return median ? std::optional(Timing{median->number(0, max_seconds), spread_s}) : std::nullopt;
}

Timing timing(const YamlMap& row, const std::string& what) {
  row.required(what + "_s");
  return *optional_timing(row, what);
}

std::optional<double> optional_bytes(const YamlMap& row, std::string_view key) {
  const auto value = row.optional(key);
  return value ? std::optional(value->number(0, max_bytes)) : std::nullopt;
}

ProfileRow read_row(const YamlValue& value) {
  const YamlMap row =
      value.map({"kind", "micro_batch", "tensor", "forward_s", "forward_spread_s", "backward_s",
                 "backward_spread_s", "update_s", "update_spread_s", "activation_bytes", "peak_bytes"});
  ProfileRow result;
  result.kind = row.required("kind").text();
  result.micro_batch = static_cast<int>(row.required("micro_batch").integer(1, max_micro_batch));
  if (const auto tensor = row.optional("tensor"))
    result.tensor = static_cast<int>(tensor->integer(1, max_tensor));
  result.forward = timing(row, "forward");
  result.backward = timing(row, "backward");
  result.update = optional_timing(row, "update");
  result.activation_bytes = optional_bytes(row, "activation_bytes");
  result.peak_bytes = optional_bytes(row, "peak_bytes");
  return result;
}

/// Reads the rows and sorts them by kind (in order of first appearance), tensor degree and micro-batch.
std::vector<ProfileRow> read_rows(const YamlValue& list) {
  using Key = std::tuple<int, int, int>;
  std::map<std::string, int> kinds;
  std::map<Key, std::pair<ProfileRow, std::string>> rows;
  for (const YamlValue& item : list.list()) {
    ProfileRow row = read_row(item);
    const int kind = kinds.emplace(row.kind, static_cast<int>(kinds.size())).first->second;
    const Key key{kind, row.tensor, row.micro_batch};
    const auto [seen, is_new] = rows.emplace(key, std::pair{std::move(row), item.where()});
    if (!is_new)
      throw item.error(
          fmt::format("layer `{}` at micro-batch {} and tensor degree {} is given twice, first at {}",
                      seen->second.first.kind, seen->second.first.micro_batch, seen->second.first.tensor,
                      seen->second.second));
  }
  if (rows.empty()) throw list.value_error("must not be empty");
  std::vector<ProfileRow> result;
  for (auto& [key, row] : rows) result.push_back(std::move(row.first));
  return result;
}

void write_timing(ordered_json& json, const std::string& what, const Timing& timing) {
  json[what + "_s"] = timing.median_s;
  if (timing.spread_s > 0) json[what + "_spread_s"] = timing.spread_s;
}

ordered_json row_json(const ProfileRow& row) {
  ordered_json json = {{"kind", row.kind}, {"micro_batch", row.micro_batch}, {"tensor", row.tensor}};
  write_timing(json, "forward", row.forward);
  write_timing(json, "backward", row.backward);
  if (row.update) write_timing(json, "update", *row.update);
  if (row.activation_bytes) json["activation_bytes"] = *row.activation_bytes;
  if (row.peak_bytes) json["peak_bytes"] = *row.peak_bytes;
  return json;
}

}  // namespace

LayerProfile read_profile(const YamlValue& value) {
  const YamlMap map = value.map({"schema", "gpu", "source", "derivation", "precision", "model", "shape",
                                 "software", "includes_all_reduces", "layers"});
  const YamlValue schema = map.required("schema");
  if (!schema.is_word("dtfm-profile/1"))
    throw schema.value_error("expected `dtfm-profile/1`; found " + quote(schema.text()));
  LayerProfile profile;
  profile.gpu = map.required("gpu").text();
  profile.source =
      static_cast<LayerProfile::Source>(map.required("source").choice({"measured", "imported", "estimated"}));
  if (const auto derivation = map.optional("derivation"))
    profile.derivation = derivation->text(max_text_length);
  profile.precision = precision_table()[map.required("precision").choice(names_in(precision_table()))].kind;
  profile.model = map.required("model").text();
  if (const auto shape = map.optional("shape")) profile.shape = read_shape(*shape);
  if (const auto software = map.optional("software"))
    for (const auto& [what, version] : software->entries())
      profile.software.emplace_back(what.text(), version.text(max_text_length));
  if (const auto includes = map.optional("includes_all_reduces"))
    profile.includes_all_reduces = includes->boolean();
  profile.rows = read_rows(map.required("layers"));
  return profile;
}

LayerProfile parse_profile(std::string text, std::string file) {
  const YamlDocument document(std::move(text), std::move(file));
  return read_profile(document.root());
}

LayerProfile read_profile(const std::filesystem::path& file) {
  return parse_profile(read_file(file, yaml_size_limit), file.string());
}

ordered_json profile_json(const LayerProfile& profile) {
  ordered_json json = {{"schema", "dtfm-profile/1"},
                       {"gpu", profile.gpu},
                       {"source", name_of(profile.source)},
                       {"derivation", profile.derivation},
                       {"precision", name_of(profile.precision)},
                       {"model", profile.model}};
  if (profile.derivation.empty()) json.erase("derivation");
  if (profile.shape) json["shape"] = shape_json(*profile.shape);
  for (const auto& [what, version] : profile.software) json["software"][what] = version;
  if (profile.includes_all_reduces) json["includes_all_reduces"] = true;
  for (const ProfileRow& row : profile.rows) json["layers"].push_back(row_json(row));
  return json;
}

}  // namespace dtfm::io
