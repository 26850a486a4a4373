#include "core/io/text/pass_order.hpp"

#include <algorithm>
#include <charconv>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"

namespace dtfm::io {
namespace {

constexpr std::string_view letters = "FIW";  // in the order of Operation::Kind

/// Longest group that is repeated in texts.
constexpr std::size_t max_group = 64;

/// How often `text` repeats its first `length` letters.
std::size_t count_repetitions(std::string_view text, std::size_t length) {
  std::size_t count = 1;
  while (text.substr(count * length, length) == text.substr(0, length) && text.size() >= (count + 1) * length)
    ++count;
  return count;
}

class PassParser {
 public:
  PassParser(std::string_view text, std::size_t most) : text_(text), most_(most) {}

  PassOrder parse() {
    while (skip_spaces()) {
      PassOrder group = take('(') ? letters_until_end_of_group() : PassOrder{letter()};
      const std::size_t count = take('*') ? number() : 1;
      if (count > (most_ - passes_.size()) / group.size()) fail(fmt::format("more than {} passes", most_));
      for (std::size_t i = 0; i < count; ++i) passes_.insert(passes_.end(), group.begin(), group.end());
    }
    return std::move(passes_);
  }

 private:
  bool skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size();
  }

  bool take(char expected) {
    if (at_ == text_.size() || text_[at_] != expected) return false;
    ++at_;
    return true;
  }

  Operation::Kind letter() {
    const std::size_t kind = at_ < text_.size() ? letters.find(text_[at_]) : std::string_view::npos;
    if (kind == std::string_view::npos) fail("expected F, I, W or a group such as `(FIW)*2`");
    ++at_;
    return static_cast<Operation::Kind>(kind);
  }

  PassOrder letters_until_end_of_group() {
    PassOrder group;
    do group.push_back(letter());
    while (!take(')'));
    return group;
  }

  std::size_t number() {
    std::size_t count = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), count);
    if (error != std::errc() || count == 0) fail("expected a positive number after `*`");
    at_ = static_cast<std::size_t>(end - text_.data());
    return count;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error("", fmt::format("character {}: {}", at_ + 1, what));
  }

  std::string_view text_;
  std::size_t most_, at_ = 0;
  PassOrder passes_;
};

}  // namespace

std::string format_passes(const PassOrder& passes) {
  std::string all;
  for (const Operation::Kind kind : passes) all += letters[static_cast<std::size_t>(kind)];
  std::vector<std::string> words;
  std::string_view rest = all;
  while (!rest.empty()) {
    std::size_t best = 1, covered = 1;  // the shortest group among those that cover most
    for (std::size_t length = 1; length <= std::min(max_group, rest.size() / 2); ++length)
      if (const std::size_t count = count_repetitions(rest, length); count > 1 && count * length > covered) {
        best = length;
        covered = count * length;
      }
    if (covered == 1)
      words.emplace_back(rest.substr(0, 1));
    else
      words.push_back(best == 1 ? fmt::format("{}*{}", rest.front(), covered)
                                : fmt::format("({})*{}", rest.substr(0, best), covered / best));
    rest.remove_prefix(covered);
  }
  return fmt::format("{}", fmt::join(words, " "));
}

PassOrder parse_passes(std::string_view text, std::size_t most) {
  return PassParser(text, most).parse();
}

}  // namespace dtfm::io
