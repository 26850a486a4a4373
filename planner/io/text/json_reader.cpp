#include "planner/io/text/json_reader.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "planner/core/error.hpp"
#include "planner/io/text/suggest.hpp"
#include "planner/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

using nlohmann::json;

constexpr int max_depth = 64;
constexpr long long max_json_values = 20'000'000;

/// "file:line:column" of the byte at `offset`.
std::string position_of(const std::string& file, std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line_ends = std::count(before.begin(), before.end(), '\n');
  const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  return position(file, static_cast<std::size_t>(line_ends) + 1, before.size() - line_begin + 1);
}

/// The message of nlohmann's exception without its prefix "[json.exception…] parse error at line 1, column 2:
/// ".
std::string parser_message(const json::exception& error) {
  const std::string what = error.what();
  const std::size_t column = what.find("column ");
  const std::size_t colon = what.find(": ", column == std::string::npos ? 0 : column);
  const std::size_t bracket = what.find("] ");
  const std::size_t begin = column != std::string::npos && colon != std::string::npos ? colon + 2
                            : bracket != std::string::npos                            ? bracket + 2
                                                                                      : 0;
  return what.substr(begin, 300);
}

/// Counts the consumed bytes, so that the position is known when the parser calls back.
struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  std::size_t* consumed;

  reference operator*() const { return *at; }
  CountingIterator& operator++() {
    ++at;
    ++*consumed;
    return *this;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at == b.at; }
};

/// Rejects what the parser accepts: too many levels, too many values and, unless allowed, duplicate keys.
class LimitChecker {
 public:
  LimitChecker(const std::string& file, std::string_view text, const std::size_t& consumed,
               DuplicateKeys duplicates)
      : file_(file), text_(text), consumed_(consumed), duplicates_(duplicates) {}

  void visit(json::parse_event_t event, const json& parsed) {
    using Event = json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) enter_container();
    if (event == Event::object_end || event == Event::array_end) keys_.pop_back();
    if (event == Event::key && duplicates_ == DuplicateKeys::rejected)
      check_key(parsed.get_ref<const std::string&>());
    if (event == Event::value && ++values_ > max_json_values)
      fail(consumed_, fmt::format("more than {} values", max_json_values));
  }

  /// Call this when the values that were parsed so far have been discarded and no longer take memory.
  void reset_value_count() { values_ = 0; }

 private:
  [[noreturn]] void fail(std::size_t offset, const std::string& what) const {
    throw Error(position_of(file_, text_, offset), what);
  }

  void enter_container() {
    if (keys_.size() == max_depth) fail(consumed_ - 1, fmt::format("more than {} levels deep", max_depth));
    keys_.emplace_back();
  }

  void check_key(const std::string& key) {
    if (!keys_.back().insert(key).second) fail(key_begin(), fmt::format("duplicate key {}", quote(key)));
  }

  /// Offset of the opening quote of the string that has just been read.
  std::size_t key_begin() const {
    std::size_t at = consumed_ - 1;  // the closing quote
    bool escaped = true;
    while (escaped) {
      at = text_.rfind('"', at - 1);
      const std::size_t last = text_.find_last_not_of('\\', at - 1);
      escaped = (at - 1 - last) % 2 == 1;
    }
    return at;
  }

  const std::string& file_;
  std::string_view text_;
  const std::size_t& consumed_;
  DuplicateKeys duplicates_;
  std::vector<std::set<std::string>> keys_;  // of each open object or array, outermost first
  long long values_ = 0;                     // values in memory
};

std::string format_type(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return "null";
    case json::value_t::object:
      return "an object";
    case json::value_t::array:
      return "an array";
    case json::value_t::string:
      return "the string " + quote(value.get_ref<const std::string&>());
    case json::value_t::boolean:
      return "true or false";
    default:
      return "the number " + value.dump();
  }
}

/// `keep(depth, event, value)` decides whether a value stays in the result.
template <class Keep>
json parse_with_limits(std::string_view text, const std::string& file, DuplicateKeys duplicates,
                       const Keep& keep) {
  std::size_t consumed = 0;
  LimitChecker checker(file, text, consumed, duplicates);
  try {
    return json::parse(CountingIterator{text.data(), &consumed},
                       CountingIterator{text.data() + text.size(), &consumed},
                       [&](int depth, json::parse_event_t event, json& parsed) {
                         checker.visit(event, parsed);
                         const bool is_kept = keep(depth, event, parsed);
                         if (!is_kept) checker.reset_value_count();
                         return is_kept;
                       });
  } catch (const json::exception& error) {
    throw Error(position_of(file, text, consumed == 0 ? 0 : consumed - 1), parser_message(error));
  }
}

}  // namespace

json parse_json(std::string_view text, const std::string& file, DuplicateKeys duplicates) {
  return parse_with_limits(text, file, duplicates,
                           [](int, json::parse_event_t, const json&) { return true; });
}

void read_json_items(std::string_view text, const std::string& file, const char* key,
                     const std::function<void(const JsonCursor&)>& visit) {
  using Event = json::parse_event_t;
  const json nothing;
  const JsonCursor root(nothing, file), list(nothing, root, key);
  bool is_inside = false;
  std::size_t index = 0;
  const auto keep = [&](int depth, Event event, const json& parsed) {
    if (depth == 1 && event == Event::key) is_inside = parsed == key;
    const bool is_end = event == Event::value || event == Event::object_end || event == Event::array_end;
    if (depth != 2 || !is_end) return true;
    if (is_inside) visit(JsonCursor(parsed, list, std::to_string(index++)));
    return false;
  };
  const json rest = parse_with_limits(text, file, DuplicateKeys::rejected, keep);
  JsonCursor(rest, file).required(key).array_size("events");
}

std::optional<std::string> isolate_value(std::string_view text, const char* key) {
  using Event = json::parse_event_t;
  std::size_t consumed = 0, begin = 0, end = 0;
  bool is_inside = false;
  const auto visit = [&](int depth, Event event, json& parsed) {
    if (depth != 1) return true;
    const bool is_end = event == Event::value || event == Event::object_end || event == Event::array_end;
    if (is_inside && is_end) {
      end = consumed;
      is_inside = false;
    }
    if (event == Event::key && parsed == key) {
      begin = text.find(':', consumed) + 1;
      is_inside = true;
    }
    return true;
  };
  const CountingIterator first{text.data(), &consumed}, last{text.data() + text.size(), &consumed};
  [[maybe_unused]] const json whole = json::parse(first, last, visit);
  if (end == 0) return std::nullopt;
  std::string value(text.substr(0, end));
  std::replace_if(
      value.begin(), value.begin() + static_cast<std::ptrdiff_t>(begin), [](char c) { return c != '\n'; },
      ' ');
  return value;
}

JsonCursor::JsonCursor(const json& value, std::string file) : value_(&value), file_(std::move(file)) {}

JsonCursor::JsonCursor(const json& value, const JsonCursor& parent, const std::string& step)
    : value_(&value), file_(parent.file_), path_(parent.path_ + "/" + step) {}

void JsonCursor::fail(const std::string& what) const {
  throw Error(file_, path() + ": " + what);
}

void JsonCursor::fail_type(const std::string& expected) const {
  fail(fmt::format("expected {}; found {}", expected, format_type(*value_)));
}

std::optional<JsonCursor> JsonCursor::optional(const char* key) const {
  if (!value_->is_object()) fail_type("an object");
  const auto found = value_->find(key);
  if (found == value_->end()) return std::nullopt;
  return JsonCursor(*found, *this, key);
}

JsonCursor JsonCursor::required(const char* key) const {
  const auto value = optional(key);
  if (!value) fail(fmt::format("missing key {}", quote(key)));
  return *value;
}

std::size_t JsonCursor::array_size(std::string_view elements) const {
  if (!value_->is_array()) fail_type(fmt::format("an array of {}", elements));
  return value_->size();
}

JsonCursor JsonCursor::at(std::size_t index) const {
  return {(*value_)[index], *this, std::to_string(index)};
}

std::vector<std::pair<std::string, JsonCursor>> JsonCursor::members(std::string_view elements) const {
  if (!value_->is_object()) fail_type(fmt::format("an object of {}", elements));
  std::vector<std::pair<std::string, JsonCursor>> members;
  for (const auto& [key, value] : value_->items()) members.emplace_back(key, JsonCursor(value, *this, key));
  return members;
}

bool JsonCursor::is_string() const {
  return value_->is_string();
}

bool JsonCursor::is_array() const {
  return value_->is_array();
}

const std::string& JsonCursor::as_string() const {
  if (!value_->is_string()) fail_type("a string");
  return value_->get_ref<const std::string&>();
}

bool JsonCursor::as_bool() const {
  if (!value_->is_boolean()) fail_type("true or false");
  return value_->get<bool>();
}

int JsonCursor::as_int(int min_value, int max_value) const {
  const std::string expected = fmt::format("a whole number from {} to {}", min_value, max_value);
  if (!value_->is_number_integer()) fail_type(expected);
  const bool too_big =
      value_->is_number_unsigned() && value_->get<std::uint64_t>() > static_cast<std::uint64_t>(max_value);
  const auto number = too_big ? 0 : value_->get<std::int64_t>();
  if (too_big || number < min_value || number > max_value) fail_type(expected);
  return static_cast<int>(number);
}

double JsonCursor::as_number(double min_value, double max_value) const {
  const double number = value_->is_number() ? value_->get<double>() : min_value - 1;
  if (!(number >= min_value && number <= max_value))
    fail_type(fmt::format("a number from {} to {}", min_value, max_value));
  return number;
}

}  // namespace dtfm::io
