#include "simulator/io/line_words.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/io/text/suggest.hpp"
#include "planner/io/text/text_file.hpp"

namespace dtfm::io {

void fail_at(const std::string& file, const Word& word, const std::string& what) {
  throw Error(position(file, word.line, word.column), what);
}

void LineWords::read(std::string_view line, std::size_t number) {
  constexpr std::string_view blanks = " \t\r";
  line = line.substr(0, line.find('#'));
  words_.clear();
  next_ = 0;
  std::size_t begin = line.find_first_not_of(blanks);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(line.find_first_of(blanks, begin), line.size());
    words_.push_back({line.substr(begin, end - begin), number, begin + 1});
    begin = line.find_first_not_of(blanks, end);
  }
  end_ = {{}, number, words_.empty() ? 1 : words_.back().column + words_.back().text.size()};
}

Word LineWords::peek(std::string_view what) const {
  if (done()) fail_at(file_, end_, fmt::format("expected {}; found the end of the line", what));
  return words_[next_];
}

Word LineWords::take(std::string_view what) {
  const Word word = peek(what);
  ++next_;
  return word;
}

namespace {

/// Far beyond what anything measures, and so far from where doubles end that what is made of them is finite.
constexpr double smallest_number = 1e-24, largest_number = 1e24;

}  // namespace

double LineWords::take_number(std::string_view what, Least least) {
  const Word word = take(what);
  double value = 0;
  const char* end = word.text.data() + word.text.size();
  const auto [stop, status] = std::from_chars(word.text.data(), end, value);
  const bool in_range = least == Least::any || value > 0 || (least == Least::zero && value == 0);
  if (status == std::errc() && stop == end && value != 0 && std::isfinite(value) &&
      (std::abs(value) < smallest_number || std::abs(value) > largest_number))
    fail_at(file_, word,
            fmt::format("{}: {} is out of range: numbers are 0, or from {:g} to {:g}", what,
                        in_quotes(word.text), smallest_number, largest_number));
  if (status != std::errc() || stop != end || !std::isfinite(value) || !in_range) {
    const char* range = least == Least::any ? "" : least == Least::zero ? ", 0 or more" : " above 0";
    fail_at(file_, word, fmt::format("expected {}, a number{}; found {}", what, range, in_quotes(word.text)));
  }
  return value == 0 ? 0 : value;  // no negative zero
}

int LineWords::take_choice(std::string_view what, const std::vector<std::string_view>& choices) {
  const Word word = take(what);
  const auto found = std::find(choices.begin(), choices.end(), word.text);
  if (found == choices.end())
    fail_at(file_, word,
            fmt::format("unknown {} {}; {}", what, in_quotes(word.text), suggestion(word.text, choices)));
  return static_cast<int>(found - choices.begin());
}

void LineWords::expect_end() const {
  if (!done())
    fail_at(file_, words_[next_],
            fmt::format("expected the end of the line; found {}", in_quotes(words_[next_].text)));
}

}  // namespace dtfm::io
