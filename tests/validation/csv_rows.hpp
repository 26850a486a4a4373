// Reads tables of measured runs.
#pragma once

#include <cstddef>
#include <string>

#include "core/io/text/csv_table.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm {

/// Calls row(table, count) for each row of a table with a header; `count` returns a cell of it as an integer.
template <class Row>
void for_each_row(const std::string& file, std::size_t cells, const Row& row) {
  constexpr std::size_t limit = 1 << 20;
  const std::string text = io::read_file(file, limit);
  io::CsvTable table(text, file);
  table.take_header();
  for (; table.has_row(); table.next()) {
    table.expect_cells(cells);
    row(table, [&](std::size_t cell) {
      return static_cast<int>(table.number(cell, io::Unit{"", 0}, "a count"));
    });
  }
}

}  // namespace dtfm
