// JSON from strangers: size, depth and number of values bounded, no key twice in an object, and every error
// with its place.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace dtfm::io {

/// Of a key that an object has twice. Some programs write such files.
enum class DuplicateKeys { rejected, last_wins };

/// Throws Error at file:line:column (in bytes, from 1) for what is not JSON.
nlohmann::json parse_json(std::string_view text, const std::string& file,
                          DuplicateKeys duplicates = DuplicateKeys::rejected);

/// `text` with blanks for all but the value of `key` in its outermost object, so that the value can be read
/// by itself and is where it was; nothing when there is no such key. Expects text that parse_json accepts.
std::optional<std::string> isolate_value(std::string_view text, const char* key);

/// A value and where it is in its file, as a JSON pointer. The value must outlive the cursor.
class JsonCursor {
 public:
  JsonCursor(const nlohmann::json& value, std::string file);

  /// "/pipelines/3/stages/2"; "/" for the whole file.
  std::string path() const { return path_.empty() ? "/" : path_; }
  /// Throws Error "file: path: what".
  [[noreturn]] void fail(const std::string& what) const;

  JsonCursor required(const char* key) const;
  std::optional<JsonCursor> optional(const char* key) const;
  /// Elements of an array; `of` says what they are, in the plural, for the error when it is none.
  std::size_t array_size(std::string_view elements) const;
  JsonCursor at(std::size_t index) const;
  /// Keys and values of an object; `of` says what they are, for the error when it is none.
  std::vector<std::pair<std::string, JsonCursor>> members(std::string_view elements) const;

  bool is_string() const;
  bool is_array() const;
  const std::string& as_string() const;
  bool as_bool() const;
  int as_int(int min_value, int max_value) const;
  double as_number(double min_value, double max_value) const;

 private:
  friend void read_json_items(std::string_view, const std::string&, const char*,
                              const std::function<void(const JsonCursor&)>&);
  JsonCursor(const nlohmann::json& value, const JsonCursor& parent, const std::string& step);
  [[noreturn]] void fail_type(const std::string& expected) const;

  const nlohmann::json* value_;
  std::string file_, path_;
};

/// Calls `see` for each element of the array under `key` in the outermost object, one after the other, and
/// keeps none of them nor anything else: for files much larger than what is wanted of them. Throws Error as
/// parse_json, and where there is no such array.
void read_json_items(std::string_view text, const std::string& file, const char* key,
                     const std::function<void(const JsonCursor& item)>& visit);

}  // namespace dtfm::io
