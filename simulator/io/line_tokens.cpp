#include "simulator/io/line_tokens.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm::io {

void fail_at(const std::string& file, const Token& token, const std::string& description) {
  throw Error(position(file, token.line, token.column), description);
}

void LineTokens::read(std::string_view line, std::size_t number) {
  constexpr std::string_view blanks = " \t\r";
  line = line.substr(0, line.find('#'));
  tokens_.clear();
  next_ = 0;
  std::size_t begin = line.find_first_not_of(blanks);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(line.find_first_of(blanks, begin), line.size());
    tokens_.push_back({line.substr(begin, end - begin), number, begin + 1});
    begin = line.find_first_not_of(blanks, end);
  }
  end_ = {{}, number, tokens_.empty() ? 1 : tokens_.back().column + tokens_.back().text.size()};
}

Token LineTokens::peek(std::string_view description) const {
  if (done()) fail_at(file_, end_, fmt::format("expected {}; found the end of the line", description));
  return tokens_[next_];
}

Token LineTokens::take(std::string_view description) {
  const Token token = peek(description);
  ++next_;
  return token;
}

namespace {

/// Limits far beyond any measured quantity, and far enough from the limits of doubles that results computed
/// from such numbers stay finite.
constexpr double min_magnitude = 1e-24, max_magnitude = 1e24;

}  // namespace

double LineTokens::take_number(std::string_view description, NumberRange allowed) {
  const Token token = take(description);
  double value = 0;
  const char* end = token.text.data() + token.text.size();
  const auto [stop, status] = std::from_chars(token.text.data(), end, value);
  const bool in_range =
      allowed == NumberRange::any || value > 0 || (allowed == NumberRange::non_negative && value == 0);
  if (status == std::errc() && stop == end && value != 0 && std::isfinite(value) &&
      (std::abs(value) < min_magnitude || std::abs(value) > max_magnitude))
    fail_at(file_, token,
            fmt::format("{}: {} is out of range: numbers are 0, or from {:g} to {:g}", description,
                        quote(token.text), min_magnitude, max_magnitude));
  if (status != std::errc() || stop != end || !std::isfinite(value) || !in_range) {
    const char* range = allowed == NumberRange::any            ? ""
                        : allowed == NumberRange::non_negative ? ", 0 or more"
                                                               : " above 0";
    fail_at(file_, token,
            fmt::format("expected {}, a number{}; found {}", description, range, quote(token.text)));
  }
  return value == 0 ? 0 : value;  // avoids negative zero
}

int LineTokens::take_choice(std::string_view description, const std::vector<std::string_view>& choices) {
  const Token token = take(description);
  const auto found = std::find(choices.begin(), choices.end(), token.text);
  if (found == choices.end())
    fail_at(
        file_, token,
        fmt::format("unknown {} {}; {}", description, quote(token.text), suggestion(token.text, choices)));
  return static_cast<int>(found - choices.begin());
}

void LineTokens::expect_end() const {
  if (!done())
    fail_at(file_, tokens_[next_],
            fmt::format("expected the end of the line; found {}", quote(tokens_[next_].text)));
}

}  // namespace dtfm::io
