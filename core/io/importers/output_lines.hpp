// Splits what a program printed into lines, for its parsers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.hpp"

namespace dtfm::io {

/// A text without the escape sequences by which terminals style it (ESC [ … letter), as `topo -m` underlines
/// its header, and without carriage returns.
inline std::string without_styles(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b' && i + 1 < text.size() && text[i + 1] == '[') {
      i += 2;
      while (i < text.size() && ((text[i] >= '0' && text[i] <= '9') || text[i] == ';')) ++i;
    } else if (text[i] != '\r') {
      plain += text[i];
    }
  }
  return plain;
}

/// Calls visit(number, line) for each line, numbered from 1, without its end.
template <class Visit>
void for_each_line(std::string_view text, const Visit& visit) {
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    visit(++number, text.substr(begin, end - begin));
    begin = end + 1;
  }
}

inline std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

/// The parts of `text` between characters of `separators`; empty parts are left out.
inline std::vector<std::string_view> split_text(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0;
       (begin = text.find_first_not_of(separators, begin)) != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return parts;
}

/// A whole number of at most nine digits and nothing else; nullopt for any other text.
inline std::optional<int> small_number(std::string_view text) {
  constexpr std::size_t max_digits = 9;
  if (text.empty() || text.size() > max_digits) return std::nullopt;
  int value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = 10 * value + (c - '0');
  }
  return value;
}

inline Error line_error(const std::string& where, std::size_t line, const std::string& what) {
  return Error(fmt::format("{}:{}", where, line), what);
}

}  // namespace dtfm::io
