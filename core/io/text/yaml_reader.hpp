// Reads untrusted YAML: every value knows its file:line:column, every unknown key is reported, and memory and
// time are proportional to the size of the file. A reader looks like this:
//
//   const YamlDocument document(text, "job.yaml");
//   const YamlMap job = versioned_map(document, "a job", {"version", "name", "training"});
//   const YamlMap training = job.required("training").map({"global_batch", "precision"});
//   const auto batch = training.required("global_batch").integer(1, 1'000'000);
//   if (const auto precision = training.optional("precision"))
//     precision->choice(names_in(precision_table()));
//
// Anchors, aliases, tags, multiple documents, duplicate keys and deep nesting are rejected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/units.hpp"

namespace dtfm::io {

inline constexpr std::size_t yaml_size_limit = std::size_t{16} << 20;

class JsonCursor;
class YamlMap;
class YamlValue;

/// A parsed file. Values and maps refer to it, so it must outlive them.
class YamlDocument {
 public:
  /// Throws Error with a position for text that is not YAML as described above or is larger than
  /// yaml_size_limit.
  YamlDocument(std::string text, std::string file);
  /// A part of a JSON file, whose positions are JSON pointers. Throws Error for more levels or values than
  /// YAML may have.
  explicit YamlDocument(const JsonCursor& part);
  YamlValue root() const;
  const std::string& file() const { return file_; }

 private:
  friend class YamlValue;
  friend class YamlMap;
  friend class YamlTreeBuilder;
  enum class Kind { nothing, scalar, list, map };
  struct Node {
    Kind kind;
    bool plain;        // whether it is a scalar without quotes
    int line, column;  // from 1
    std::string text;
    std::vector<std::uint32_t> children;  // indices of nodes; for a map: key, value, key, value, …
  };

  std::uint32_t add(const JsonCursor& value, std::size_t depth);

  std::string file_;
  std::vector<Node> nodes_;            // the root is first
  std::vector<std::string> pointers_;  // by node, of a part of a JSON file
};

/// One value of a document. All getters throw Error at its position that says what was expected and what was
/// found.
class YamlValue {
 public:
  std::string where() const;
  int line() const { return node().line; }
  /// The key of this value in its map; empty for the root and for list items.
  const std::string& key() const { return key_; }
  /// Returns an Error with `message` at the position of this value.
  Error error(const std::string& message) const { return Error(where(), message); }
  /// The same with the key as a prefix: "`count`: message".
  Error value_error(const std::string& message) const;

  bool is_map() const;
  bool is_list() const;
  bool is_scalar() const;
  /// Whether this is a scalar with the text `word`.
  bool is_word(std::string_view word) const;

  /// A scalar of 1 to `max_length` bytes without control characters.
  std::string text(std::size_t max_length = 128) const;
  bool boolean() const;  // true or false
  std::int64_t integer(std::int64_t min_value, std::int64_t max_value) const;
  /// A finite number without a unit, in [min_value, max_value].
  double number(double min_value, double max_value) const;
  /// A factor or a fraction: a number from 1e-6 to 1e6.
  double ratio() const;
  // Quantities with a unit, within the limits of units.hpp:
  Seconds seconds() const;            // ≥ 0
  BitsPerSecond rate() const;         // > 0
  Bytes bytes() const;                // ≥ 0
  Flops flops() const;                // ≥ 0
  FlopsPerSecond flop_rate() const;   // > 0
  DollarsPerHour price() const;       // ≥ 0
  DollarsPerByte data_price() const;  // ≥ 0
  /// Index in `words` of the text of this scalar.
  std::size_t choice(const std::vector<std::string_view>& words) const;

  std::vector<YamlValue> list() const;
  /// This value as a map with no keys other than `keys`.
  YamlMap map(std::initializer_list<std::string_view> keys) const;
  YamlMap map(const std::vector<std::string_view>& keys) const;
  /// Keys and values, in file order, of a map whose keys are chosen by the user.
  std::vector<std::pair<YamlValue, YamlValue>> entries() const;

 private:
  friend class YamlDocument;
  friend class YamlMap;
  YamlValue(const YamlDocument& document, std::uint32_t node, std::string key)
      : document_(&document), node_(node), key_(std::move(key)) {}
  const YamlDocument::Node& node() const { return document_->nodes_[node_]; }
  std::string describe() const;
  const std::string& scalar(const std::string& expected) const;

  const YamlDocument* document_;
  std::uint32_t node_;
  std::string key_;
};

class YamlMap {
 public:
  YamlValue required(std::string_view key) const;
  std::optional<YamlValue> optional(std::string_view key) const;
  bool has(std::string_view key) const { return optional(key).has_value(); }
  std::string where() const { return value_.where(); }
  /// Returns an Error with `message` at the position of the map.
  Error error(const std::string& message) const { return value_.error(message); }

 private:
  friend class YamlValue;
  explicit YamlMap(YamlValue value) : value_(std::move(value)) {}
  YamlValue value_;
};

/// The root as a map that contains `version: 1` and no keys other than `keys`. `what` is for messages, for
/// example "a topology".
YamlMap versioned_map(const YamlDocument& document, std::string_view what,
                      std::initializer_list<std::string_view> keys);

}  // namespace dtfm::io
