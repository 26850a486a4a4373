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

constexpr int most_levels = 64;
constexpr long long most_values = 20'000'000;

/// "file:line:column" of the byte at `offset`.
std::string place(const std::string& file, std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line_ends = std::count(before.begin(), before.end(), '\n');
  const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  return position(file, static_cast<std::size_t>(line_ends) + 1, before.size() - line_begin + 1);
}

/// nlohmann's words without its own "[json.exception…] parse error at line 1, column 2: ".
std::string reason_of(const json::exception& error) {
  const std::string what = error.what();
  const std::size_t column = what.find("column ");
  const std::size_t colon = what.find(": ", column == std::string::npos ? 0 : column);
  const std::size_t bracket = what.find("] ");
  const std::size_t begin = column != std::string::npos && colon != std::string::npos ? colon + 2
                            : bracket != std::string::npos                            ? bracket + 2
                                                                                      : 0;
  return what.substr(begin, 300);
}

/// Goes through the text, so that the position is known when the parser calls back.
struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  std::size_t* passed;

  reference operator*() const { return *at; }
  CountingIterator& operator++() {
    ++at;
    ++*passed;
    return *this;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at == b.at; }
};

/// Refuses what the parser lets through: too deep, too many values, and repeated keys unless they are
/// allowed.
class Guard {
 public:
  Guard(const std::string& file, std::string_view text, const std::size_t& passed, RepeatedKeys repeated)
      : file_(file), text_(text), passed_(passed), repeated_(repeated) {}

  void see(json::parse_event_t event, const json& parsed) {
    using Event = json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) enter();
    if (event == Event::object_end || event == Event::array_end) keys_.pop_back();
    if (event == Event::key && repeated_ == RepeatedKeys::refused)
      see_key(parsed.get_ref<const std::string&>());
    if (event == Event::value && ++values_ > most_values)
      fail(passed_, fmt::format("more than {} values", most_values));
  }

  /// Those so far take no memory any more.
  void forget_values() { values_ = 0; }

 private:
  [[noreturn]] void fail(std::size_t offset, const std::string& what) const {
    throw Error(place(file_, text_, offset), what);
  }

  void enter() {
    if (keys_.size() == most_levels) fail(passed_ - 1, fmt::format("more than {} levels deep", most_levels));
    keys_.emplace_back();
  }

  void see_key(const std::string& key) {
    if (!keys_.back().insert(key).second)
      fail(begin_of_key(), fmt::format("key {} a second time", in_quotes(key)));
  }

  /// The opening quote of the string that has just been read.
  std::size_t begin_of_key() const {
    std::size_t at = passed_ - 1;  // the closing quote
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
  const std::size_t& passed_;
  RepeatedKeys repeated_;
  std::vector<std::set<std::string>> keys_;  // of each open object
  long long values_ = 0;                     // in memory
};

std::string type_in_words(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return "null";
    case json::value_t::object:
      return "an object";
    case json::value_t::array:
      return "an array";
    case json::value_t::string:
      return "the text " + in_quotes(value.get_ref<const std::string&>());
    case json::value_t::boolean:
      return "true or false";
    default:
      return "the number " + value.dump();
  }
}

/// `keep(depth, event, value)`: whether a value stays in the result.
template <class Keep>
json parse_guarded(std::string_view text, const std::string& file, RepeatedKeys repeated, const Keep& keep) {
  std::size_t passed = 0;
  Guard guard(file, text, passed, repeated);
  try {
    return json::parse(CountingIterator{text.data(), &passed},
                       CountingIterator{text.data() + text.size(), &passed},
                       [&](int depth, json::parse_event_t event, json& parsed) {
                         guard.see(event, parsed);
                         const bool is_kept = keep(depth, event, parsed);
                         if (!is_kept) guard.forget_values();
                         return is_kept;
                       });
  } catch (const json::exception& error) {
    throw Error(place(file, text, passed == 0 ? 0 : passed - 1), reason_of(error));
  }
}

}  // namespace

json parse_json(std::string_view text, const std::string& file, RepeatedKeys repeated) {
  return parse_guarded(text, file, repeated, [](int, json::parse_event_t, const json&) { return true; });
}

void read_json_items(std::string_view text, const std::string& file, const char* key,
                     const std::function<void(const JsonCursor&)>& see) {
  using Event = json::parse_event_t;
  const json nothing;
  const JsonCursor root(nothing, file), list(nothing, root, key);
  bool is_inside = false;
  std::size_t index = 0;
  const auto keep = [&](int depth, Event event, const json& parsed) {
    if (depth == 1 && event == Event::key) is_inside = parsed == key;
    const bool is_end = event == Event::value || event == Event::object_end || event == Event::array_end;
    if (depth != 2 || !is_end) return true;
    if (is_inside) see(JsonCursor(parsed, list, std::to_string(index++)));
    return false;
  };
  const json rest = parse_guarded(text, file, RepeatedKeys::refused, keep);
  JsonCursor(rest, file).required(key).array_size("events");
}

std::optional<std::string> only_value(std::string_view text, const char* key) {
  using Event = json::parse_event_t;
  std::size_t passed = 0, begin = 0, end = 0;
  bool is_inside = false;
  const auto see = [&](int depth, Event event, json& parsed) {
    if (depth != 1) return true;
    const bool is_end = event == Event::value || event == Event::object_end || event == Event::array_end;
    if (is_inside && is_end) {
      end = passed;
      is_inside = false;
    }
    if (event == Event::key && parsed == key) {
      begin = text.find(':', passed) + 1;
      is_inside = true;
    }
    return true;
  };
  const CountingIterator first{text.data(), &passed}, last{text.data() + text.size(), &passed};
  [[maybe_unused]] const json whole = json::parse(first, last, see);
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
  fail(fmt::format("expected {}; found {}", expected, type_in_words(*value_)));
}

std::optional<JsonCursor> JsonCursor::optional(const char* key) const {
  if (!value_->is_object()) fail_type("an object");
  const auto found = value_->find(key);
  if (found == value_->end()) return std::nullopt;
  return JsonCursor(*found, *this, key);
}

JsonCursor JsonCursor::required(const char* key) const {
  const auto value = optional(key);
  if (!value) fail(fmt::format("missing key {}", in_quotes(key)));
  return *value;
}

std::size_t JsonCursor::array_size(std::string_view of) const {
  if (!value_->is_array()) fail_type(fmt::format("an array of {}", of));
  return value_->size();
}

JsonCursor JsonCursor::at(std::size_t index) const {
  return {(*value_)[index], *this, std::to_string(index)};
}

std::vector<std::pair<std::string, JsonCursor>> JsonCursor::members(std::string_view of) const {
  if (!value_->is_object()) fail_type(fmt::format("an object of {}", of));
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
  if (!value_->is_string()) fail_type("a text");
  return value_->get_ref<const std::string&>();
}

bool JsonCursor::as_bool() const {
  if (!value_->is_boolean()) fail_type("true or false");
  return value_->get<bool>();
}

int JsonCursor::as_int(int least, int most) const {
  const std::string expected = fmt::format("a whole number from {} to {}", least, most);
  if (!value_->is_number_integer()) fail_type(expected);
  const bool too_big =
      value_->is_number_unsigned() && value_->get<std::uint64_t>() > static_cast<std::uint64_t>(most);
  const auto number = too_big ? 0 : value_->get<std::int64_t>();
  if (too_big || number < least || number > most) fail_type(expected);
  return static_cast<int>(number);
}

double JsonCursor::as_number(double least, double most) const {
  const double number = value_->is_number() ? value_->get<double>() : least - 1;
  if (!(number >= least && number <= most)) fail_type(fmt::format("a number from {} to {}", least, most));
  return number;
}

}  // namespace dtfm::io
