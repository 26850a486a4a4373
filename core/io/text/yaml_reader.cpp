#include "core/io/text/yaml_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "core/io/text/control_characters.hpp"
#include "core/io/text/renamed_keys.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"
#include "core/io/text/units.hpp"

namespace dtfm::io {
namespace {

std::string format_yaml_number(double value) {
  return fmt::format("{}", value);
}

/// Returns parse(text); an Error that it throws gets the position and the key of `value`.
template <class Parse>
auto parse_at(const YamlValue& value, std::string_view text, const Parse& parse) {
  try {
    return parse(text);
  } catch (const Error& error) {
    throw value.value_error(error.what());
  }
}

template <class Quantity>
Quantity require_not_negative(const YamlValue& value, std::string_view text, Quantity quantity) {
  if (quantity.value() < 0)
    throw value.value_error(fmt::format("must not be negative; found {}", quote(text)));
  return quantity;
}

template <class Quantity>
Quantity require_positive(const YamlValue& value, std::string_view text, Quantity quantity) {
  if (quantity.value() <= 0)
    throw value.value_error(fmt::format("must be above zero; found {}", quote(text)));
  return quantity;
}

}  // namespace

YamlValue YamlDocument::root() const {
  return YamlValue(*this, 0, "");
}

std::string YamlValue::where() const {
  if (!document_->pointers_.empty()) return document_->file_ + ": " + document_->pointers_[node_];
  return position(document_->file_, static_cast<std::size_t>(node().line),
                  static_cast<std::size_t>(node().column));
}

Error YamlValue::value_error(const std::string& message) const {
  return error(key_.empty() ? message : quote(key_) + ": " + message);
}

bool YamlValue::is_map() const {
  return node().kind == YamlDocument::Kind::map;
}
bool YamlValue::is_list() const {
  return node().kind == YamlDocument::Kind::list;
}
bool YamlValue::is_scalar() const {
  return node().kind == YamlDocument::Kind::scalar;
}
bool YamlValue::is_word(std::string_view word) const {
  return is_scalar() && node().text == word;
}

std::string YamlValue::describe() const {
  switch (node().kind) {
    case YamlDocument::Kind::nothing:
      return "nothing";
    case YamlDocument::Kind::list:
      return "a list";
    case YamlDocument::Kind::map:
      return "a map";
    case YamlDocument::Kind::scalar:
      break;
  }
  return node().text.empty() ? "an empty string" : (node().plain ? "" : "the string ") + quote(node().text);
}

const std::string& YamlValue::scalar(const std::string& expected) const {
  if (!is_scalar()) throw value_error(fmt::format("expected {}; found {}", expected, describe()));
  return node().text;
}

std::string YamlValue::text(std::size_t max_length) const {
  const std::string& text = scalar("a string");
  if (text.empty()) throw value_error("must not be empty");
  if (text.size() > max_length)
    throw value_error(fmt::format("{} is longer than {} bytes", quote(text), max_length));
  if (has_control_character(text))
    throw value_error(fmt::format("{} contains a control character", quote(text)));
  return text;
}

bool YamlValue::boolean() const {
  const std::string& text = scalar("true or false");
  if (!node().plain || (text != "true" && text != "false"))
    throw value_error(fmt::format("expected true or false; found {}", describe()));
  return text == "true";
}

std::int64_t YamlValue::integer(std::int64_t min_value, std::int64_t max_value) const {
  const std::string expected = fmt::format("a whole number from {} to {}", min_value, max_value);
  const std::string& text = scalar(expected);
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::size_t sign = text.starts_with('-') ? 1 : 0;
  const bool leading_zero = text.size() > sign + 1 && text[sign] == '0';
  const bool whole =
      status == std::errc() && end == text.data() + text.size() && node().plain && !leading_zero;
  if (!whole || value < min_value || value > max_value)
    throw value_error(fmt::format("expected {}; found {}", expected, describe()));
  return value;
}

double YamlValue::number(double min_value, double max_value) const {
  const std::string& text = scalar("a number");
  if (!node().plain) throw value_error(fmt::format("expected a number; found {}", describe()));
  const double value = parse_at(*this, text, parse_decimal);
  if (value < min_value || value > max_value)
    throw value_error(fmt::format("expected a number from {} to {}; found {}", format_yaml_number(min_value),
                                  format_yaml_number(max_value), quote(text)));
  return value;
}

double YamlValue::ratio() const {
  constexpr double min_value = 1e-6, max_value = 1e6;
  const double value = number(std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max());
  if (value <= 0) throw value_error(fmt::format("must be above zero; found {}", describe()));
  return number(min_value, max_value);
}

Seconds YamlValue::seconds() const {
  const std::string& text = scalar("a time");
  return require_not_negative(*this, text, parse_at(*this, text, parse_seconds));
}

BitsPerSecond YamlValue::rate() const {
  const std::string& text = scalar("a data rate");
  return require_positive(*this, text, parse_at(*this, text, parse_rate));
}

Bytes YamlValue::bytes() const {
  const std::string& text = scalar("a size");
  return require_not_negative(*this, text, parse_at(*this, text, parse_bytes));
}

Flops YamlValue::flops() const {
  const std::string& text = scalar("a FLOP count");
  return require_not_negative(*this, text, parse_at(*this, text, parse_flops));
}

FlopsPerSecond YamlValue::flop_rate() const {
  const std::string& text = scalar("a computing speed");
  return require_positive(*this, text, parse_at(*this, text, parse_flop_rate));
}

DollarsPerHour YamlValue::price() const {
  const std::string& text = scalar("a price");
  return require_not_negative(*this, text, parse_at(*this, text, parse_price));
}

DollarsPerByte YamlValue::data_price() const {
  const std::string& text = scalar("a data price");
  return require_not_negative(*this, text, parse_at(*this, text, parse_data_price));
}

std::size_t YamlValue::choice(const std::vector<std::string_view>& words) const {
  const std::string& text = scalar(fmt::format("a name ({})", suggestion({}, words)));
  const auto word = std::find(words.begin(), words.end(), text);
  if (word == words.end())
    throw value_error(fmt::format("unknown {}; {}", quote(text), suggestion(text, words)));
  return static_cast<std::size_t>(word - words.begin());
}

std::vector<YamlValue> YamlValue::list() const {
  if (!is_list()) throw value_error(fmt::format("expected a list; found {}", describe()));
  std::vector<YamlValue> items;
  items.reserve(node().children.size());
  for (const std::uint32_t child : node().children) items.push_back(YamlValue(*document_, child, ""));
  return items;
}

std::vector<std::pair<YamlValue, YamlValue>> YamlValue::entries() const {
  if (!is_map()) throw value_error(fmt::format("expected a map; found {}", describe()));
  std::vector<std::pair<YamlValue, YamlValue>> entries;
  const auto& children = node().children;
  for (std::size_t i = 0; i < children.size(); i += 2)
    entries.emplace_back(YamlValue(*document_, children[i], ""),
                         YamlValue(*document_, children[i + 1], document_->nodes_[children[i]].text));
  return entries;
}

YamlMap YamlValue::map(std::initializer_list<std::string_view> keys) const {
  return map(std::vector(keys));
}

YamlMap YamlValue::map(const std::vector<std::string_view>& keys) const {
  if (!is_map()) throw value_error(fmt::format("expected a map; found {}", describe()));
  for (std::size_t i = 0; i < node().children.size(); i += 2) {
    const YamlValue key(*document_, node().children[i], "");
    const std::string& name = key.node().text;
    if (std::find(keys.begin(), keys.end(), name) != keys.end()) continue;
    if (const std::string_view new_name = renamed_key(key_, name); !new_name.empty())
      throw key.error(fmt::format("key {} was renamed to {}", quote(name), quote(new_name)));
    throw key.error(fmt::format("unknown key {}; {}", quote(name), suggestion(name, keys)));
  }
  return YamlMap(*this);
}

std::optional<YamlValue> YamlMap::optional(std::string_view key) const {
  const auto& nodes = value_.document_->nodes_;
  const auto& children = value_.node().children;
  for (std::size_t i = 0; i < children.size(); i += 2)
    if (nodes[children[i]].text == key)
      return YamlValue(*value_.document_, children[i + 1], std::string(key));
  return std::nullopt;
}

YamlValue YamlMap::required(std::string_view key) const {
  const auto value = optional(key);
  if (!value) throw error(fmt::format("missing key {}", quote(key)));
  return *value;
}

YamlMap versioned_map(const YamlDocument& document, std::string_view what,
                      std::initializer_list<std::string_view> keys) {
  const YamlValue root = document.root();
  if (!root.is_map()) throw root.error(fmt::format("expected {}: a map that begins with `version: 1`", what));
  const YamlMap map = root.map(keys);
  const auto version = map.optional("version");
  if (!version) throw map.error(fmt::format("missing `version: 1`, which {} begins with", what));
  if (!version->is_word("1")) throw version->value_error("expected 1, the only supported version");
  return map;
}

}  // namespace dtfm::io
