#include "planner/io/importers/megatron_layout.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/io/text/suggest.hpp"

namespace dtfm::io {
namespace {

constexpr std::size_t most_symbols = 1'000'000;
constexpr int most_nested = 32;

/// A layout without repetitions and commas. Throws Error, at `where`, for what it does not allow.
class LayoutExpander {
 public:
  LayoutExpander(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  std::string expanded() {
    std::string symbols = sequence(0);
    if (at_ < text_.size()) throw unexpected("no group is open here");
    return symbols;
  }

 private:
  Error error(const std::string& message) const { return Error(where_, message); }
  Error unexpected(const char* expected) const {
    return error(fmt::format("the layout has {} as character {}: {}", in_quotes(text_.substr(at_, 1)),
                             at_ + 1, expected));
  }

  /// Up to the end or a parenthesis that closes.
  std::string sequence(int depth) {
    if (depth > most_nested)
      throw error(fmt::format("the layout has more than {} parentheses in each other", most_nested));
    std::string symbols;
    while (at_ < text_.size() && text_[at_] != ')') {
      if (text_[at_] == ',') {
        ++at_;
        continue;
      }
      const std::string unit = this->unit(depth);
      const std::size_t times = repetitions();
      if (unit.size() * times + symbols.size() > most_symbols)
        throw error(fmt::format("the layout has more than {} layers and stages", most_symbols));
      for (std::size_t i = 0; i < times; ++i) symbols += unit;
    }
    return symbols;
  }

  std::string unit(int depth) {
    if (text_[at_] == '(') {
      ++at_;
      std::string symbols = sequence(depth + 1);
      if (at_ == text_.size()) throw error("the layout lacks a `)`");
      if (symbols.empty()) throw unexpected("the group before it is empty");
      ++at_;
      return symbols;
    }
    if (std::string_view("EtmL|").find(text_[at_]) == std::string_view::npos)
      throw unexpected("expected E, t, L, |, a group in parentheses, or * and a number behind one of them");
    return std::string(1, text_[at_++]);
  }

  std::size_t repetitions() {
    if (at_ == text_.size() || text_[at_] != '*') return 1;
    std::size_t times = 0;
    const auto [end, status] = std::from_chars(text_.data() + at_ + 1, text_.data() + text_.size(), times);
    if (status != std::errc() || times < 1 || times > most_symbols)
      throw unexpected("expected a number from 1 to a million behind it");
    at_ = static_cast<std::size_t>(end - text_.data());
    return times;
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t at_ = 0;
};

std::vector<int> layers_of_stages(const std::string& symbols, const std::string& where) {
  const auto count = [&](char c) { return std::count(symbols.begin(), symbols.end(), c); };
  if (count('m') > 0)
    throw Error(where, "the layout has `m`: multi-token prediction is not something that plans know");
  if (count('E') != 1 || symbols.front() != 'E')
    throw Error(where, "expected one E, the embedding, at the begin of the layout");
  if (count('L') != 1 || symbols.back() != 'L')
    throw Error(where, "expected one L, the loss, at the end of the layout");
  std::vector<int> layers(1);
  for (const char c : symbols) {
    if (c == '|') layers.push_back(0);
    if (c == 't') ++layers.back();
  }
  return layers;
}

}  // namespace

std::optional<std::vector<int>> layout_layers(std::string_view layout, const std::string& where,
                                              Faults& faults) {
  try {
    return layers_of_stages(LayoutExpander(layout, where).expanded(), where);
  } catch (const Error& error) {
    faults.add(error);
    return std::nullopt;
  }
}

}  // namespace dtfm::io
