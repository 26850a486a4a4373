#include "core/io/text/json_reader.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"

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

/// Reads the tokens of a JSON text, and also rejects too many levels, too many values and, unless allowed,
/// duplicate keys. Holds no values: nlohmann's parser with a callback would, and at the end of every object
/// it searches the array around it, which takes quadratic time.
class TokenReader : public nlohmann::json_sax<json> {
 public:
  /// `text` and `file` must outlive this.
  TokenReader(std::string_view text, const std::string& file, DuplicateKeys duplicates)
      : text_(text), file_(file), duplicates_(duplicates) {}

  void run() {
    const char* const begin = text_.data();
    json::sax_parse(CountingIterator{begin, &consumed_}, CountingIterator{begin + text_.size(), &consumed_},
                    this);
  }

  bool null() final { return end_value(json()); }
  bool boolean(bool value) final { return end_value(value); }
  bool number_integer(json::number_integer_t value) final { return end_value(value); }
  bool number_unsigned(json::number_unsigned_t value) final { return end_value(value); }
  bool number_float(json::number_float_t value, const std::string&) final { return end_value(value); }
  bool string(std::string& value) final { return end_value(std::move(value)); }
  bool binary(json::binary_t&) final { return true; }  // not in texts
  bool start_object(std::size_t) final { return begin_container(); }
  bool start_array(std::size_t) final { return begin_container(); }
  bool end_object() final { return end_container(json::object()); }
  bool end_array() final { return end_container(json::array()); }
  bool key(std::string& key) final {
    if (duplicates_ == DuplicateKeys::rejected && !keys_.back().insert(key).second)
      fail(key_begin(), fmt::format("duplicate key {}", quote(key)));
    on_key(key);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) final {
    fail(consumed_ == 0 ? 0 : consumed_ - 1, parser_message(error));
  }

 protected:
  virtual void on_key(const std::string&) {}
  /// The opening bracket of an object or an array has been read.
  virtual void on_begin() {}
  /// A value has been read. An object or an array is passed without its elements.
  virtual void on_end(json&&) {}

  std::string_view text() const { return text_; }
  const std::string& file() const { return file_; }
  /// Bytes that have been read.
  std::size_t consumed() const { return consumed_; }
  /// Number of objects and arrays around the current value.
  std::size_t depth() const { return keys_.size(); }
  /// Call this when the values so far take no memory.
  void reset_value_count() { values_ = 0; }

 private:
  [[noreturn]] void fail(std::size_t offset, const std::string& what) const {
    throw Error(position_of(file_, text_, offset), what);
  }

  bool begin_container() {
    if (keys_.size() == max_depth) fail(consumed_ - 1, fmt::format("more than {} levels deep", max_depth));
    on_begin();
    keys_.emplace_back();
    return true;
  }

  bool end_container(json&& empty) {
    keys_.pop_back();
    on_end(std::move(empty));
    return true;
  }

  bool end_value(json&& value) {
    if (++values_ > max_json_values) fail(consumed_, fmt::format("more than {} values", max_json_values));
    on_end(std::move(value));
    return true;
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

  std::string_view text_;
  const std::string& file_;
  DuplicateKeys duplicates_;
  std::size_t consumed_ = 0;
  std::vector<std::set<std::string>> keys_;  // of each open object or array, outermost first
  long long values_ = 0;
};

/// Visits the elements of an array one after the other, so that only one is held at a time.
class ItemReader : public TokenReader {
 public:
  using Visit = std::function<void(std::size_t index, const json& item)>;

  ItemReader(std::string_view text, const std::string& file, const char* key, const Visit& visit)
      : TokenReader(text, file, DuplicateKeys::rejected), key_(key), visit_(visit) {}

  /// What is left of the file without the elements, and without other keys.
  const json& rest() const { return rest_; }

 private:
  void on_key(const std::string& key) override {
    if (depth() == 1) is_inside_ = key == key_;
  }

  void on_begin() override {
    if (depth() == 2) item_begin_ = consumed() - 1;
  }

  void on_end(json&& value) override {
    if (depth() == 0 && !value.is_object()) rest_ = std::move(value);
    if (depth() == 1 && is_inside_) rest_[key_] = std::move(value);
    if (depth() != 2) return;
    if (is_inside_) {
      const bool is_parsed = !value.is_structured();
      visit_(index_++, is_parsed ? value : json::parse(text().substr(item_begin_, consumed() - item_begin_)));
    }
    reset_value_count();
  }

  const char* key_;
  const Visit& visit_;
  bool is_inside_ = false;
  std::size_t item_begin_ = 0, index_ = 0;
  json rest_ = json::object();
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

}  // namespace

json parse_json(std::string_view text, const std::string& file, DuplicateKeys duplicates) {
  TokenReader(text, file, duplicates).run();
  return json::parse(text);
}

void read_json_items(std::string_view text, const std::string& file, const char* key,
                     const std::function<void(const JsonCursor&)>& visit) {
  const json nothing;
  const JsonCursor root(nothing, file), list(nothing, root, key);
  const ItemReader::Visit visit_item = [&](std::size_t index, const json& item) {
    visit(JsonCursor(item, list, std::to_string(index)));
  };
  ItemReader reader(text, file, key, visit_item);
  reader.run();
  JsonCursor(reader.rest(), file).required(key).array_size("events");
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
