// Splits a line of CSV into cells. Quotes around a whole cell are removed; a cell cannot contain a comma.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace dtfm::io {

/// A cell without surrounding blanks and quotes.
struct Cell {
  std::string_view text;
  std::size_t column;  // of the first character in its line, in bytes from 1
};

constexpr bool is_csv_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

/// The cell in the byte range [begin, end) of `line`.
inline Cell trimmed_cell(std::string_view line, std::size_t begin, std::size_t end) {
  while (begin < end && is_csv_blank(line[begin])) ++begin;
  while (begin < end && is_csv_blank(line[end - 1])) --end;
  if (end - begin >= 2 && line[begin] == '"' && line[end - 1] == '"') ++begin, --end;
  return {line.substr(begin, end - begin), begin + 1};
}

/// Calls visit(index, cell) for each cell of `line`, with indices from 0.
template <class Visit>
void for_each_cell(std::string_view line, const Visit& visit) {
  std::size_t begin = 0;
  for (std::size_t index = 0; begin <= line.size(); ++index) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    visit(index, trimmed_cell(line, begin, end));
    begin = end + 1;
  }
}

/// Whether a cell marks a number that was not measured.
inline bool is_missing_value(std::string_view text) {
  return text.empty() || text == "-" || text == "nan" || text == "NaN" || text == "NAN" || text == "NA";
}

}  // namespace dtfm::io
