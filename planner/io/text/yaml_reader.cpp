#include "planner/io/text/yaml_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "planner/io/text/control_characters.hpp"
#include "planner/io/text/suggest.hpp"
#include "planner/io/text/text_file.hpp"
#include "planner/io/text/units.hpp"

namespace dtfm::io {
namespace {

std::string number_text(double value) {
  return fmt::format("{}", value);
}

/// What `parse` makes of `text`; its complaint gets the position and the key of `value`.
template <class Parse>
auto parsed(const YamlValue& value, std::string_view text, const Parse& parse) {
  try {
    return parse(text);
  } catch (const Error& error) {
    throw value.value_error(error.what());
  }
}

template <class Quantity>
Quantity not_negative(const YamlValue& value, std::string_view text, Quantity quantity) {
  if (quantity.value() < 0)
    throw value.value_error(fmt::format("must not be negative; found {}", in_quotes(text)));
  return quantity;
}

template <class Quantity>
Quantity positive(const YamlValue& value, std::string_view text, Quantity quantity) {
  if (quantity.value() <= 0)
    throw value.value_error(fmt::format("must be above zero; found {}", in_quotes(text)));
  return quantity;
}

}  // namespace

YamlValue YamlDocument::root() const {
  return YamlValue(*this, 0, "");
}

std::string YamlValue::where() const {
  return position(document_->file_, static_cast<std::size_t>(node().line),
                  static_cast<std::size_t>(node().column));
}

Error YamlValue::value_error(const std::string& message) const {
  return error(key_.empty() ? message : in_quotes(key_) + ": " + message);
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

std::string YamlValue::found() const {
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
  return node().text.empty() ? "an empty text" : (node().plain ? "" : "the text ") + in_quotes(node().text);
}

const std::string& YamlValue::scalar(const std::string& expected) const {
  if (!is_scalar()) throw value_error(fmt::format("expected {}; found {}", expected, found()));
  return node().text;
}

std::string YamlValue::text(std::size_t longest) const {
  const std::string& text = scalar("a text");
  if (text.empty()) throw value_error("must not be empty");
  if (text.size() > longest)
    throw value_error(fmt::format("{} is longer than {} bytes", in_quotes(text), longest));
  if (has_control_character(text))
    throw value_error(fmt::format("{} has a control character", in_quotes(text)));
  return text;
}

bool YamlValue::boolean() const {
  const std::string& text = scalar("true or false");
  if (!node().plain || (text != "true" && text != "false"))
    throw value_error(fmt::format("expected true or false; found {}", found()));
  return text == "true";
}

std::int64_t YamlValue::integer(std::int64_t least, std::int64_t most) const {
  const std::string expected = fmt::format("a whole number from {} to {}", least, most);
  const std::string& text = scalar(expected);
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::size_t sign = text.starts_with('-') ? 1 : 0;
  const bool leading_zero = text.size() > sign + 1 && text[sign] == '0';
  const bool whole =
      status == std::errc() && end == text.data() + text.size() && node().plain && !leading_zero;
  if (!whole || value < least || value > most)
    throw value_error(fmt::format("expected {}; found {}", expected, found()));
  return value;
}

double YamlValue::number(double least, double most) const {
  const std::string& text = scalar("a number");
  if (!node().plain) throw value_error(fmt::format("expected a number; found {}", found()));
  const double value = parsed(*this, text, parse_decimal);
  if (value < least || value > most)
    throw value_error(fmt::format("expected a number from {} to {}; found {}", number_text(least),
                                  number_text(most), in_quotes(text)));
  return value;
}

double YamlValue::ratio() const {
  constexpr double least = 1e-6, most = 1e6;
  const double value = number(std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max());
  if (value <= 0) throw value_error(fmt::format("must be above zero; found {}", found()));
  return number(least, most);
}

Seconds YamlValue::seconds() const {
  const std::string& text = scalar("a time");
  return not_negative(*this, text, parsed(*this, text, parse_seconds));
}

BitsPerSecond YamlValue::rate() const {
  const std::string& text = scalar("a data rate");
  return positive(*this, text, parsed(*this, text, parse_rate));
}

Bytes YamlValue::bytes() const {
  const std::string& text = scalar("a size");
  return not_negative(*this, text, parsed(*this, text, parse_bytes));
}

Flops YamlValue::flops() const {
  const std::string& text = scalar("a number of operations");
  return not_negative(*this, text, parsed(*this, text, parse_flops));
}

FlopsPerSecond YamlValue::flop_rate() const {
  const std::string& text = scalar("a computing speed");
  return positive(*this, text, parsed(*this, text, parse_flop_rate));
}

DollarsPerHour YamlValue::price() const {
  const std::string& text = scalar("a price");
  return not_negative(*this, text, parsed(*this, text, parse_price));
}

DollarsPerByte YamlValue::data_price() const {
  const std::string& text = scalar("a price of data");
  return not_negative(*this, text, parsed(*this, text, parse_data_price));
}

std::size_t YamlValue::choice(std::initializer_list<std::string_view> words) const {
  const std::string& text = scalar("a word");
  const auto word = std::find(words.begin(), words.end(), text);
  if (word == words.end())
    throw value_error(fmt::format("unknown {}; {}", in_quotes(text), suggestion(text, std::vector(words))));
  return static_cast<std::size_t>(word - words.begin());
}

std::vector<YamlValue> YamlValue::list() const {
  if (!is_list()) throw value_error(fmt::format("expected a list; found {}", found()));
  std::vector<YamlValue> items;
  items.reserve(node().children.size());
  for (const std::uint32_t child : node().children) items.push_back(YamlValue(*document_, child, ""));
  return items;
}

std::vector<std::pair<YamlValue, YamlValue>> YamlValue::entries() const {
  if (!is_map()) throw value_error(fmt::format("expected a map; found {}", found()));
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
  if (!is_map()) throw value_error(fmt::format("expected a map; found {}", found()));
  for (std::size_t i = 0; i < node().children.size(); i += 2) {
    const YamlValue key(*document_, node().children[i], "");
    const std::string& name = key.node().text;
    if (std::find(keys.begin(), keys.end(), name) == keys.end())
      throw key.error(fmt::format("unknown key {}; {}", in_quotes(name), suggestion(name, keys)));
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
  if (!value) throw error(fmt::format("missing key {}", in_quotes(key)));
  return *value;
}

YamlMap versioned_map(const YamlDocument& document, std::string_view what,
                      std::initializer_list<std::string_view> keys) {
  const YamlValue root = document.root();
  if (!root.is_map()) throw root.error(fmt::format("expected {}: a map that begins with `version: 1`", what));
  const YamlMap map = root.map(keys);
  const auto version = map.optional("version");
  if (!version) throw map.error(fmt::format("missing `version: 1`, which {} begins with", what));
  if (!version->is_word("1")) throw version->value_error("expected 1, the only version there is");
  return map;
}

}  // namespace dtfm::io
