// How YamlDocument gets its nodes. yaml-cpp is used by events instead of nodes, because they take a tenth of the
// memory and allow limits to be enforced while the file is being parsed.
#include <algorithm>
#include <limits>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "core/io/text/json_reader.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"
#include "core/io/text/yaml_reader.hpp"

namespace dtfm::io {
namespace {

constexpr std::size_t max_nesting = 32, max_values = 1'000'000;

std::string position_of(const std::string& file, int line, int column) {
  return position(file, static_cast<std::size_t>(line), static_cast<std::size_t>(column));
}

Error error_at(const std::string& file, const YAML::Mark& mark, const std::string& message) {
  return Error(mark.is_null() ? file : position_of(file, mark.line + 1, mark.column + 1), message);
}

/// Bounds the number of tokens: yaml-cpp buffers all tokens of a bracketed collection, some 200 bytes each,
/// before it emits the first event.
void check_marks(std::string_view text, const std::string& file) {
  const auto is_mark = [](char c) {
    return std::string_view("[]{},:?&*!\"'").find(c) != std::string_view::npos;
  };
  if (std::count_if(text.begin(), text.end(), is_mark) > std::ptrdiff_t{2 * max_values})
    throw Error(file, fmt::format("has more than {} YAML punctuation characters", 2 * max_values));
}

}  // namespace

class YamlTreeBuilder : public YAML::EventHandler {
 public:
  explicit YamlTreeBuilder(YamlDocument& document) : document_(document) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(mark, YamlDocument::Kind::nothing, "?", anchor, "");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw error(mark, "aliases (`*name`) are not supported; write a literal star in quotes: \"*\"");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    add(mark, YamlDocument::Kind::scalar, tag, anchor, text);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open_.push_back(add(mark, YamlDocument::Kind::list, tag, anchor, ""));
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open_.push_back(add(mark, YamlDocument::Kind::map, tag, anchor, ""));
  }
  void OnMapEnd() override {
    check_duplicates(open_.back());
    open_.pop_back();
  }

  /// yaml-cpp reports errors at the end of the file on line 1; the innermost open collection is more helpful.
  Error error(const YAML::Exception& exception) const {
    std::string message = "not YAML: " + exception.msg;
    if (exception.msg == YAML::ErrorMsg::UNKNOWN_ANCHOR || exception.msg == YAML::ErrorMsg::ALIAS_NOT_FOUND)
      message += "; write a literal star in quotes: \"*\"";
    if (exception.mark.pos > 0 || open_.empty()) return error(exception.mark, message);
    const Node& unfinished = document_.nodes_[open_.back()];
    return Error(position_of(document_.file_, unfinished.line, unfinished.column), message);
  }

 private:
  using Node = YamlDocument::Node;

  std::uint32_t add(const YAML::Mark& mark, YamlDocument::Kind kind, const std::string& tag,
                    YAML::anchor_t anchor, const std::string& text) {
    if (anchor != 0) throw error(mark, "anchors (`&name`) are not supported");
    if (!tag.empty() && tag != "?" && tag != "!") throw error(mark, "tags (`!name`) are not supported");
    if (open_.size() >= max_nesting)
      throw error(mark, fmt::format("nested more than {} levels deep", max_nesting));
    if (document_.nodes_.size() >= max_values)
      throw error(mark, fmt::format("more than {} values", max_values));
    const auto index = static_cast<std::uint32_t>(document_.nodes_.size());
    if (!open_.empty()) {
      Node& parent = document_.nodes_[open_.back()];
      const bool is_key = parent.kind == YamlDocument::Kind::map && parent.children.size() % 2 == 0;
      if (is_key && kind != YamlDocument::Kind::scalar)
        throw error(mark, "expected a key: a word followed by a colon; or the bracket here is never closed");
      parent.children.push_back(index);
    }
    document_.nodes_.push_back({kind, tag != "!", mark.line + 1, mark.column + 1, text, {}});
    return index;
  }

  void check_duplicates(std::uint32_t map) const {
    const auto& nodes = document_.nodes_;
    std::vector<std::uint32_t> keys;
    for (std::size_t i = 0; i < nodes[map].children.size(); i += 2) keys.push_back(nodes[map].children[i]);
    std::sort(keys.begin(), keys.end(), [&](auto a, auto b) {
      return nodes[a].text != nodes[b].text ? nodes[a].text < nodes[b].text : a < b;
    });
    const auto same_text = [&](auto a, auto b) { return nodes[a].text == nodes[b].text; };
    const auto duplicate = std::adjacent_find(keys.begin(), keys.end(), same_text);
    if (duplicate == keys.end()) return;
    const Node &first = nodes[*duplicate], &second = nodes[*(duplicate + 1)];
    throw Error(position_of(document_.file_, second.line, second.column),
                fmt::format("key {} is given twice, first on line {}", quote(second.text), first.line));
  }

  Error error(const YAML::Mark& mark, const std::string& message) const {
    return error_at(document_.file_, mark, message);
  }

  YamlDocument& document_;
  std::vector<std::uint32_t> open_;  // lists and maps that enclose the next value, outermost first
};

YamlDocument::YamlDocument(std::string text, std::string file) : file_(std::move(file)) {
  if (text.size() > yaml_size_limit)
    throw Error(file_, fmt::format("is larger than {} bytes", yaml_size_limit));
  text = validate_text(std::move(text), file_);
  check_marks(text, file_);
  std::istringstream stream(text);
  YamlTreeBuilder builder(*this);
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) nodes_.push_back({Kind::nothing, true, 1, 1, "", {}});
    const std::size_t first_document = nodes_.size();
    if (parser.HandleNextDocument(builder))
      throw Error(position_of(file_, nodes_.at(first_document).line, nodes_.at(first_document).column),
                  "expected one document; found a second one");
  } catch (const YAML::Exception& exception) {
    throw builder.error(exception);
  }
  DTFM_ASSERT(!nodes_.empty());
}

YamlDocument::YamlDocument(const JsonCursor& part) : file_(part.file()) {
  add(part, 0);
}

std::uint32_t YamlDocument::add(const JsonCursor& value, std::size_t depth) {
  if (depth >= max_nesting) value.fail(fmt::format("nested more than {} levels deep", max_nesting));
  if (nodes_.size() >= max_values) value.fail(fmt::format("more than {} values", max_values));
  const auto append = [&](const JsonCursor& at, Kind kind, bool plain, std::string text) {
    nodes_.push_back({kind, plain, 0, 0, std::move(text), {}});
    pointers_.push_back(at.path());
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  };
  const nlohmann::json& json = value.value();
  if (json.is_null()) return append(value, Kind::nothing, true, "");
  if (json.is_string()) return append(value, Kind::scalar, false, json.get<std::string>());
  if (!json.is_structured()) return append(value, Kind::scalar, true, json.dump());
  const std::uint32_t node = append(value, json.is_array() ? Kind::list : Kind::map, true, "");
  std::vector<std::uint32_t> children;
  if (json.is_array())
    for (std::size_t i = 0; i < json.size(); ++i) children.push_back(add(value.at(i), depth + 1));
  else
    for (const auto& [key, member] : value.members("values")) {
      children.push_back(append(member, Kind::scalar, false, key));
      children.push_back(add(member, depth + 1));
    }
  nodes_[node].children = std::move(children);
  return node;
}

}  // namespace dtfm::io
