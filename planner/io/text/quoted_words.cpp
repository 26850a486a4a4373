#include "planner/io/text/quoted_words.hpp"

namespace dtfm::io {
namespace {

constexpr std::string_view blanks = " \t\r";

class WordReader {
 public:
  explicit WordReader(std::string_view line) : line_(line) {}

  std::vector<QuotedWord> read() {
    std::vector<QuotedWord> words;
    for (skip_separators(); at_ < line_.size() && line_[at_] != '#'; skip_separators()) {
      QuotedWord word{{}, at_ + 1};
      const bool continues = line_[at_] == '\\' && is_last(at_);  // on the next line
      while (at_ < line_.size() && !separates(at_)) take(word.text);
      if (!continues) words.push_back(std::move(word));
    }
    return words;
  }

 private:
  static bool is_blank(char c) { return blanks.find(c) != blanks.npos; }
  static bool is_quote(char c) { return c == '\'' || c == '"'; }

  bool separates(std::size_t at) const {
    return is_blank(line_[at]) || (is_quote(line_[at]) && closing(at) == line_.npos);
  }
  void skip_separators() {
    while (at_ < line_.size() && separates(at_)) ++at_;
  }
  /// Whether nothing but blanks follows.
  bool is_last(std::size_t at) const { return line_.find_first_not_of(blanks, at + 1) == line_.npos; }

  /// Where the quote at `open` ends; npos: a blank or the end of the line comes first.
  std::size_t closing(std::size_t open) const {
    for (std::size_t at = open + 1; at < line_.size() && !is_blank(line_[at]); ++at) {
      if (line_[at] == line_[open]) return at;
      if (line_[at] == '\\' && line_[open] == '"') ++at;
    }
    return line_.npos;
  }

  /// The character here, or all that stands between quotes.
  void take(std::string& text) {
    if (is_quote(line_[at_])) {
      const std::size_t end = closing(at_);
      for (++at_; at_ < end; ++at_) {
        if (line_[at_] == '\\' && line_[end] == '"') ++at_;
        text += line_[at_];
      }
      ++at_;
    } else if (line_[at_] == '\\') {
      if (!is_last(at_++)) text += line_[at_++];
    } else {
      text += line_[at_++];
    }
  }

  std::string_view line_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<QuotedWord> quoted_words(std::string_view line) {
  return WordReader(line).read();
}

}  // namespace dtfm::io
