#include "core/io/importers/megatron_pattern.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/io/readers/transformer_reader.hpp"

namespace dtfm::io {
namespace {

/// Throws Error for what is no pattern.
class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text) {}

  LayerPattern parse() {
    LayerPattern pattern = sum(0);
    if (!text_.empty()) fail();
    return pattern;
  }

 private:
  static constexpr std::size_t max_size = max_layers;
  static constexpr int max_nesting = 32;

  [[noreturn]] static void fail() { throw Error("", "not a pattern"); }

  bool skip(char character) {
    if (!text_.starts_with(character)) return false;
    text_.remove_prefix(1);
    return true;
  }

  std::size_t number() {
    std::size_t value = 0;
    const auto [end, status] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (status != std::errc() || value > max_size) fail();
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return value;
  }

  LayerPattern sum(int depth) {
    if (depth > max_nesting) fail();
    LayerPattern all;
    do {
      const LayerPattern part = product(depth);
      all.insert(all.end(), part.begin(), part.end());
      if (all.size() > max_size) fail();
    } while (skip('+'));
    return all;
  }

  LayerPattern product(int depth) {
    const LayerPattern once = term(depth);
    std::size_t times = 1;
    while (skip('*')) times = std::min(times * number(), max_size + 1);
    if (times * once.size() > max_size) fail();
    LayerPattern all;
    if (once.empty()) return all;
    for (std::size_t i = 0; i < times; ++i) all.insert(all.end(), once.begin(), once.end());
    return all;
  }

  LayerPattern term(int depth) {
    if (skip('(')) {
      LayerPattern inner = sum(depth + 1);
      if (!skip(')')) fail();
      return inner;
    }
    if (!skip('[')) fail();
    LayerPattern list;
    do {
      const bool is_set = skip('1');
      if (!is_set && !skip('0')) fail();
      list.push_back(is_set);
    } while (skip(','));
    if (!skip(']')) fail();
    return list;
  }

  std::string_view text_;
};

std::string format_list(LayerPattern::const_iterator begin, LayerPattern::const_iterator end,
                        std::ptrdiff_t times) {
  const std::vector<int> list(begin, end);
  return fmt::format("[{}]{}", fmt::join(list, ","), times > 1 ? fmt::format("*{}", times) : "");
}

std::string format_runs(const LayerPattern& pattern) {
  std::string text;
  for (auto begin = pattern.begin(); begin != pattern.end();) {
    const auto end = std::find(begin, pattern.end(), !*begin);
    text += (text.empty() ? "" : "+") + format_list(begin, begin + 1, end - begin);
    begin = end;
  }
  return text;
}

/// A list and how often it is repeated, the shortest of those of which the pattern consists.
std::string format_repeated(const LayerPattern& pattern) {
  const auto size = std::ssize(pattern);
  std::ptrdiff_t period = 1;
  while (size % period != 0 || !std::equal(pattern.begin() + period, pattern.end(), pattern.begin()))
    ++period;
  return format_list(pattern.begin(), pattern.begin() + period, size / period);
}

}  // namespace

std::optional<LayerPattern> parse_pattern(std::string_view text) {
  try {
    return PatternParser(text).parse();
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string format_pattern(const LayerPattern& pattern) {
  DTFM_ASSERT(!pattern.empty());
  const std::string runs = format_runs(pattern), repeated = format_repeated(pattern);
  return repeated.size() < runs.size() ? repeated : runs;
}

}  // namespace dtfm::io
