#include "core/io/importers/megatron_layout.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::io {
namespace {

constexpr std::size_t max_symbols = 1'000'000;
constexpr int max_nesting = 32;

/// Expands the repetitions of a layout and removes its commas. Throws Error at `where` for syntax errors.
class LayoutExpander {
 public:
  LayoutExpander(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  std::string expand() {
    std::string symbols = parse_sequence(0);
    if (position_ < text_.size()) throw unexpected_character("no group is open here");
    return symbols;
  }

 private:
  Error error(const std::string& message) const { return Error(where_, message); }
  Error unexpected_character(const char* expected) const {
    return error(fmt::format("unexpected {} at character {} of the layout: {}",
                             quote(text_.substr(position_, 1)), position_ + 1, expected));
  }

  /// Parses up to the end of the text or a closing parenthesis, which it does not consume.
  std::string parse_sequence(int depth) {
    if (depth > max_nesting)
      throw error(fmt::format("the layout has more than {} nested parentheses", max_nesting));
    std::string symbols;
    while (position_ < text_.size() && text_[position_] != ')') {
      if (text_[position_] == ',') {
        ++position_;
        continue;
      }
      const std::string term = this->term(depth);
      const std::size_t times = parse_repetitions();
      if (term.size() * times + symbols.size() > max_symbols)
        throw error(fmt::format("the layout has more than {} layers and stages", max_symbols));
      for (std::size_t i = 0; i < times; ++i) symbols += term;
    }
    return symbols;
  }

  std::string term(int depth) {
    if (text_[position_] == '(') {
      ++position_;
      std::string symbols = parse_sequence(depth + 1);
      if (position_ == text_.size()) throw error("the layout has an unclosed `(`");
      if (symbols.empty()) throw unexpected_character("the group before it is empty");
      ++position_;
      return symbols;
    }
    if (std::string_view("EtmL|").find(text_[position_]) == std::string_view::npos)
      throw unexpected_character(
          "expected E, t, m, L, |, a group in parentheses, or one of them followed by * and a number");
    return std::string(1, text_[position_++]);
  }

  std::size_t parse_repetitions() {
    if (position_ == text_.size() || text_[position_] != '*') return 1;
    std::size_t times = 0;
    const auto [end, status] =
        std::from_chars(text_.data() + position_ + 1, text_.data() + text_.size(), times);
    if (status != std::errc() || times < 1 || times > max_symbols)
      throw unexpected_character("expected a number from 1 to 1,000,000 after it");
    position_ = static_cast<std::size_t>(end - text_.data());
    return times;
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t position_ = 0;
};

PipelineLayout layout_of(const std::string& symbols, const std::string& where) {
  const auto count = [&](char c) { return std::count(symbols.begin(), symbols.end(), c); };
  if (count('E') != 1 || symbols.front() != 'E')
    throw Error(where, "expected one E, the embedding, at the beginning of the layout");
  if (count('L') != 1 || symbols.back() != 'L')
    throw Error(where, "expected one L, the loss, at the end of the layout");
  const std::size_t first = symbols.find('m'), last = symbols.rfind('m');
  if (first != symbols.npos && symbols.find('t', first) != symbols.npos)
    throw Error(where, "expected m, a module for multi-token prediction, after all layers (t) of the layout");
  if (symbols.substr(0, last).find('|', first) != symbols.npos)
    throw Error(where, "the modules for multi-token prediction (m) of the layout must be in one stage");
  PipelineLayout layout{{0}, static_cast<int>(count('m'))};
  for (const char c : symbols) {
    if (c == '|') layout.layers.push_back(0);
    if (c == 't') ++layout.layers.back();
  }
  return layout;
}

}  // namespace

std::optional<PipelineLayout> parse_layout(std::string_view layout, const std::string& where,
                                           InputErrors& errors) {
  try {
    return layout_of(LayoutExpander(layout, where).expand(), where);
  } catch (const Error& error) {
    errors.add(error);
    return std::nullopt;
  }
}

}  // namespace dtfm::io
