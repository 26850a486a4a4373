#include "planner/io/quoted_words.hpp"

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/io/text_file.hpp"

namespace dtfm {
namespace {

class WordReader {
 public:
  WordReader(std::string_view line, std::size_t number, const std::string& file)
      : line_(line), number_(number), file_(file) {}

  std::vector<QuotedWord> read() {
    std::vector<QuotedWord> words;
    for (skip_blanks(); at_ < line_.size() && line_[at_] != '#'; skip_blanks()) {
      QuotedWord word{{}, at_ + 1};
      const bool is_backslash = line_[at_] == '\\' && is_last(at_);
      while (at_ < line_.size() && !is_blank(line_[at_])) take(word.text);
      if (!is_backslash) words.push_back(std::move(word));
    }
    return words;
  }

 private:
  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
  void skip_blanks() {
    while (at_ < line_.size() && is_blank(line_[at_])) ++at_;
  }
  /// Whether nothing but blanks follows.
  bool is_last(std::size_t at) const { return line_.find_first_not_of(" \t\r", at + 1) == line_.npos; }

  /// The character here, or all that stands between quotes.
  void take(std::string& text) {
    const char c = line_[at_];
    if (c == '\'' || c == '"') return take_quoted(text, c);
    if (c == '\\') {
      if (!is_last(at_++)) text += line_[at_++];
      return;
    }
    text += c;
    ++at_;
  }

  void take_quoted(std::string& text, char quote) {
    const std::size_t begin = at_++;
    for (; at_ < line_.size() && line_[at_] != quote; ++at_) {
      const bool is_escape = quote == '"' && line_[at_] == '\\' && at_ + 1 < line_.size();
      text += line_[is_escape ? ++at_ : at_];
    }
    if (at_ == line_.size())
      throw Error(position(file_, number_, begin + 1),
                  fmt::format("expected another {} in this line, to close this one", quote));
    ++at_;
  }

  std::string_view line_;
  std::size_t number_;
  const std::string& file_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<QuotedWord> quoted_words(std::string_view line, std::size_t number, const std::string& file) {
  return WordReader(line, number, file).read();
}

}  // namespace dtfm
