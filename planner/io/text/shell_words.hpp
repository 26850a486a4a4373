// The words of a line as a shell sees them, without anything that a shell would do with them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dtfm::io {

struct ShellWord {
  std::string text;    // without quotes and backslashes
  std::size_t column;  // where it begins in its line, from 1, in bytes
};

/// Words stand between blanks. Single and double quotes are taken off; where there are blanks between them,
/// or the line does not close them, they are like blanks themselves, because scripts keep lists of words in
/// variables. A backslash makes the next character an ordinary one and is ignored at the end of the line, and
/// # at the begin of a word is a comment.
std::vector<ShellWord> split_shell_words(std::string_view line);

/// Calls visit(number, words) for each line of `text`, the first being 1, that has words.
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
