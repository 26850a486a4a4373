// Reads untrusted JSON: depth and number of values are bounded, duplicate keys are rejected, and every error
// has its position.
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

/// How to treat duplicate keys of an object, which some programs write.
enum class DuplicateKeys { rejected, last_wins };

/// Throws Error at file:line:column (columns in bytes, both from 1) for text that is not JSON, is nested more
/// than 64 levels deep, has more than 20,000,000 values, or has duplicate keys unless they are allowed.
nlohmann::json parse_json(std::string_view text, const std::string& file,
                          DuplicateKeys duplicates = DuplicateKeys::rejected);

/// A value with its location in the file, as a JSON pointer. The value must outlive the cursor. All getters
/// throw Error with that location if the value is not of the expected type or range.
class JsonCursor {
 public:
  JsonCursor(const nlohmann::json& value, std::string file);

  const nlohmann::json& value() const { return *value_; }
  const std::string& file() const { return file_; }
  /// JSON pointer, for example "/pipelines/3/stages/2"; "/" for the whole file.
  std::string path() const { return path_.empty() ? "/" : path_; }
  /// Throws Error "file: path: what".
  [[noreturn]] void fail(const std::string& what) const;

  JsonCursor required(const char* key) const;
  std::optional<JsonCursor> optional(const char* key) const;
  /// Number of elements of an array. `elements` names them, in the plural, in the error for other types.
  std::size_t array_size(std::string_view elements) const;
  JsonCursor at(std::size_t index) const;
  /// Keys and values of an object. `elements` names them, in the plural, in the error for other types.
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

/// Calls `visit` for each element of the array under `key` in the outermost object, in order, and discards
/// all values after use, so that memory stays small for large files. Throws Error as parse_json does, and if
/// there is no such array.
void read_json_items(std::string_view text, const std::string& file, const char* key,
                     const std::function<void(const JsonCursor& item)>& visit);

}  // namespace dtfm::io
