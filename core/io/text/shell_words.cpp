#include "core/io/text/shell_words.hpp"

namespace dtfm::io {
namespace {

constexpr std::string_view blanks = " \t\r";

class ShellWordSplitter {
 public:
  explicit ShellWordSplitter(std::string_view line) : line_(line) {}

  std::vector<ShellWord> read() {
    std::vector<ShellWord> words;
    for (skip_separators(); at_ < line_.size() && line_[at_] != '#'; skip_separators()) {
      ShellWord word{{}, at_ + 1};
      const bool continues = line_[at_] == '\\' && is_last(at_);  // the command continues on the next line
      while (at_ < line_.size() && !is_separator(at_)) consume_character(word.text);
      if (!continues) words.push_back(std::move(word));
    }
    return words;
  }

 private:
  static bool is_blank(char c) { return blanks.find(c) != blanks.npos; }
  static bool is_quote(char c) { return c == '\'' || c == '"'; }

  bool is_separator(std::size_t at) const {
    return is_blank(line_[at]) || (is_quote(line_[at]) && closing_quote(at) == line_.npos);
  }
  void skip_separators() {
    while (at_ < line_.size() && is_separator(at_)) ++at_;
  }
  /// Whether only blanks follow position `at`.
  bool is_last(std::size_t at) const { return line_.find_first_not_of(blanks, at + 1) == line_.npos; }

  /// Position of the quote that closes the one at `open`; npos if a blank or the end of the line comes first.
  std::size_t closing_quote(std::size_t open) const {
    for (std::size_t at = open + 1; at < line_.size() && !is_blank(line_[at]); ++at) {
      if (line_[at] == line_[open]) return at;
      if (line_[at] == '\\' && line_[open] == '"') ++at;
    }
    return line_.npos;
  }

  /// Appends the next character, or everything between the next pair of quotes, to `text`.
  void consume_character(std::string& text) {
    if (is_quote(line_[at_])) {
      const std::size_t end = closing_quote(at_);
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

std::vector<ShellWord> split_shell_words(std::string_view line) {
  return ShellWordSplitter(line).read();
}

}  // namespace dtfm::io
