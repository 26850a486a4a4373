// The cells of a line of CSV. Quotes around a whole cell are taken off; a cell holds no comma.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace dtfm::io {

/// A cell without blanks around it, and where it begins in its line.
struct Cell {
  std::string_view text;
  std::size_t column;  // from 1
};

constexpr bool is_csv_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

/// The cell in [begin, end) of `line`.
inline Cell trimmed_cell(std::string_view line, std::size_t begin, std::size_t end) {
  while (begin < end && is_csv_blank(line[begin])) ++begin;
  while (begin < end && is_csv_blank(line[end - 1])) --end;
  if (end - begin >= 2 && line[begin] == '"' && line[end - 1] == '"') ++begin, --end;
  return {line.substr(begin, end - begin), begin + 1};
}

/// Calls visit(index, cell) for each cell of a line.
template <class Visit>
void for_each_cell(std::string_view line, const Visit& visit) {
  std::size_t begin = 0;
  for (std::size_t index = 0; begin <= line.size(); ++index) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    visit(index, trimmed_cell(line, begin, end));
    begin = end + 1;
  }
}

/// Of a number that was not measured.
inline bool is_missing_value(std::string_view text) {
  return text.empty() || text == "-" || text == "nan" || text == "NaN" || text == "NAN" || text == "NA";
}

}  // namespace dtfm::io
