#include "core/io/readers/calibration_reader.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"
#include "core/io/text/units.hpp"
#include "core/io/text/yaml_reader.hpp"

namespace dtfm::io {

extern const std::string_view neutral_yaml, v100_yaml;  // the texts of configs/calibrations

namespace {

using Kind = CalibrationConstant::Kind;

constexpr std::string_view schema_name = "dtfm-calibration/1";
constexpr std::size_t calibration_size_limit = std::size_t{4} << 20;
constexpr std::size_t size = CalibrationUncertainty::size;
constexpr std::string_view process_memory_key = "process_memory";

double read_constant(const YamlValue& value, Kind kind) {
  if (kind == Kind::seconds) return value.seconds().value();
  const double number = value.ratio();
  if (kind == Kind::share && number > 1) throw value.value_error("is a fraction and must be at most 1");
  return number;
}

/// Older files have only the first constants. The defaults of the others have no effect.
Calibration read_constants(const YamlMap& map) {
  constexpr std::size_t required = 4;
  Calibration constants;
  for (std::size_t i = 0; i < calibration_constants.size(); ++i) {
    const CalibrationConstant& constant = calibration_constants[i];
    if (i >= required && !map.has(constant.name)) continue;
    constants.*constant.value = read_constant(map.required(constant.name), constant.kind);
  }
  if (const auto memory = map.optional(process_memory_key))
    constants.process_memory_bytes = memory->bytes().value();
  return constants;
}

std::vector<std::string_view> constant_names() {
  std::vector<std::string_view> names;
  for (const CalibrationConstant& constant : calibration_constants) names.push_back(constant.name);
  return names;
}

/// Throws Error at a row that cannot be part of a covariance matrix.
void check_covariance(const CalibrationUncertainty& spread, const std::vector<YamlValue>& rows) {
  constexpr double rounding = 1e-6;  // tolerance for numbers with truncated decimals
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (spread.covariance[i][i] < 0) throw rows[i].value_error("has a negative variance");
    for (std::size_t k = 0; k < i; ++k) {
      const double max_value = std::sqrt(spread.covariance[i][i] * spread.covariance[k][k]);
      const double value = spread.covariance[i][k];
      if (std::abs(value - spread.covariance[k][i]) > rounding * max_value)
        throw rows[i].value_error(fmt::format("is not symmetric with `{}`", calibration_constants[k].name));
      if (std::abs(value) > (1 + rounding) * max_value)
        throw rows[i].value_error(
            fmt::format("has a covariance with `{}` beyond the product of their standard deviations",
                        calibration_constants[k].name));
    }
  }
}

CalibrationUncertainty read_spread(const YamlValue& value) {
  constexpr double max_value = 1e12;  // of products of seconds and factors; far beyond any fitted value
  const YamlMap map = value.map({"residual", "degrees_of_freedom", "covariance", "longest_latency"});
  CalibrationUncertainty spread;
  spread.residual = map.required("residual").number(0, 10);
  spread.degrees_of_freedom = map.required("degrees_of_freedom").number(1, 1e9);
  if (const auto latency = map.optional("longest_latency"))
    spread.longest_latency_s = latency->seconds().value();
  if (!map.has("covariance")) return spread;  // the constants are exact
  const YamlMap covariance = map.required("covariance").map(constant_names());
  constexpr std::size_t old_size = 6;  // of older files
  std::size_t known = old_size;
  for (std::size_t i = old_size; i < size; ++i)
    if (covariance.has(calibration_constants[i].name)) known = size;
  std::vector<YamlValue> rows;
  for (std::size_t i = 0; i < known; ++i) {
    rows.push_back(covariance.required(calibration_constants[i].name));
    const std::vector<YamlValue> numbers = rows.back().list();
    if (numbers.size() != known)
      throw rows.back().value_error(fmt::format("expected {} numbers; found {}", known, numbers.size()));
    for (std::size_t k = 0; k < known; ++k)
      spread.covariance[i][k] = numbers[k].number(-max_value, max_value);
  }
  check_covariance(spread, rows);
  return spread;
}

/// Accepts the files that dtfm-calibrate writes, which have a `schema`, and YAML files, which have a
/// `version`.
YamlMap read_root(const YamlValue& root) {
  constexpr std::string_view what = "calibration constants";
  if (!root.is_map()) throw root.error(fmt::format("expected {}: a map that begins with `version: 1`", what));
  std::vector<std::string_view> keys = constant_names();
  keys.insert(keys.begin(), {"version", "schema"});
  keys.insert(keys.end(), {process_memory_key, "spread", "fit", "program"});
  const YamlMap map = root.map(keys);
  if (const auto schema = map.optional("schema")) {
    if (!schema->is_word(schema_name))
      throw schema->value_error(fmt::format("expected `{}`; found {}", schema_name, quote(schema->text())));
  } else if (const auto version = map.optional("version")) {
    if (!version->is_word("1")) throw version->value_error("expected 1, the only supported version");
  } else {
    throw map.error(fmt::format("missing `version: 1`, with which {} begin", what));
  }
  return map;
}

FittedCalibration read_root_value(const YamlValue& root) {
  const YamlMap map = read_root(root);
  FittedCalibration result{read_constants(map)};
  if (const auto spread = map.optional("spread")) result.spread = read_spread(*spread);
  return result;
}

constexpr std::array<std::string_view, 2> shipped_names = {"neutral", "v100"};

bool is_shipped(std::string_view name) {
  return std::find(shipped_names.begin(), shipped_names.end(), name) != shipped_names.end();
}

/// Reads a file. If that fails and `name` looks like a name and not like a file, the error lists the shipped
/// calibrations.
template <class Open>
FittedCalibration parse_named_calibration(std::string_view name, const Open& open) {
  NamedFile file;
  try {
    file = open();
  } catch (const Error& error) {
    if (name.empty() || name.find_first_of("./") != std::string_view::npos) throw;
    throw Error("",
                fmt::format("{}; shipped calibrations: {}", error.what(), fmt::join(shipped_names, ", ")));
  }
  return parse_calibration(std::move(file.text), std::move(file.path));
}

FittedCalibration parse_shipped(std::string_view name, std::string_view text) {
  FittedCalibration result =
      parse_calibration(std::string(text), fmt::format("configs/calibrations/{}.yaml", name));
  result.name = name;
  return result;
}

}  // namespace

FittedCalibration shipped_calibration(std::string_view name) {
  static const FittedCalibration neutral = parse_shipped("neutral", neutral_yaml),
                                 v100 = parse_shipped("v100", v100_yaml);
  if (!is_shipped(name)) throw Error(std::string(name), "there is no shipped calibration of this name");
  return name == "neutral" ? neutral : v100;
}

FittedCalibration calibration_for(const std::optional<std::string>& given, const Job& job,
                                  const Topology& topology) {
  if (!given)
    return job.calibration        ? *job.calibration
           : topology.calibration ? *topology.calibration
                                  : shipped_calibration("neutral");
  if (is_shipped(*given)) return shipped_calibration(*given);
  return parse_named_calibration(*given, [&] {
    return NamedFile{*given, read_file(*given, calibration_size_limit)};
  });
}

FittedCalibration read_calibration(const YamlValue& value, const FileReader& open_file) {
  if (value.is_map()) return read_root_value(value);
  const std::string name = value.is_scalar() ? value.text(1024) : "";
  if (is_shipped(name)) return shipped_calibration(name);
  return parse_named_calibration(name, [&] { return open_file(value); });
}

FittedCalibration parse_calibration(std::string text, std::string file) {
  const YamlDocument document(std::move(text), std::move(file));
  return read_root_value(document.root());
}

nlohmann::ordered_json calibration_reference_json(const FittedCalibration& calibration) {
  if (is_shipped(calibration.name)) return calibration.name;
  return calibration_json(calibration);
}

nlohmann::ordered_json calibration_json(const FittedCalibration& calibration) {
  nlohmann::ordered_json json = {{"schema", schema_name}};
  for (const CalibrationConstant& constant : calibration_constants) {
    const double value = calibration.constants.*constant.value;
    if (constant.kind == Kind::seconds)
      json[std::string(constant.name)] = fmt::format("{} s", value);
    else
      json[std::string(constant.name)] = value;
  }
  if (calibration.constants.process_memory_bytes > 0)
    json[std::string(process_memory_key)] = fmt::format("{} B", calibration.constants.process_memory_bytes);
  if (!calibration.spread) return json;
  nlohmann::ordered_json rows;
  for (std::size_t i = 0; i < size; ++i)
    rows[std::string(calibration_constants[i].name)] = calibration.spread->covariance[i];
  json["spread"] = {{"residual", calibration.spread->residual},
                    {"degrees_of_freedom", calibration.spread->degrees_of_freedom},
                    {"covariance", std::move(rows)},
                    {"longest_latency", fmt::format("{} s", calibration.spread->longest_latency_s)}};
  return json;
}

}  // namespace dtfm::io
