// Splits a line into words as a shell does, but without expansions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dtfm::io {

struct ShellWord {
  std::string text;    // without quotes and backslashes
  std::size_t column;  // of its first character in the line, in bytes from 1
};

/// Words are separated by blanks. Single and double quotes are removed; quotes that enclose blanks, or that
/// the line does not close, count as blanks themselves, because scripts keep lists of words in variables. A
/// backslash escapes the next character and is ignored at the end of the line. A # at the beginning of a word
/// starts a comment.
std::vector<ShellWord> split_shell_words(std::string_view line);

/// Calls visit(number, words) for each line of `text` that has words; lines are numbered from 1.
template <class Visit>
void for_each_line_of_words(std::string_view text, const Visit& visit) {
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const auto words = split_shell_words(text.substr(begin, end - begin));
    ++number;
    if (!words.empty()) visit(number, words);
    begin = end + 1;
  }
}

}  // namespace dtfm::io
