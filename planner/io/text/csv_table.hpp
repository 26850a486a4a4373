// A table of numbers as CSV, line by line: traces and lists of events.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/error.hpp"
#include "planner/io/text/csv_cells.hpp"
#include "planner/io/text/units.hpp"

namespace dtfm::io {

/// Reads one line after the other. Blank lines and lines that begin with # are passed over. `text` and `file`
/// must outlive it.
class CsvTable {
 public:
  CsvTable(std::string_view text, const std::string& file) : text_(text), file_(file) { next(); }

  /// False behind the last line.
  bool has_row() const { return !cells_.empty(); }
  void next();
  const std::vector<Cell>& cells() const { return cells_; }
  std::size_t line() const { return line_; }
  /// Takes the first line for a header if its first cell is not a number: the names of its cells. Nothing:
  /// there is none.
  std::vector<std::string> take_header();

  /// Throws Error if the row has not so many cells.
  void expect_cells(std::size_t count) const;
  /// A finite number ≥ 0 in `unit`. `what` is for messages: "the time".
  double number(std::size_t cell, const Unit& unit, std::string_view what) const;
  /// To be thrown: `message` at a cell of this row, or at the end of the file.
  Error error(std::size_t cell, const std::string& message) const;
  /// "file:line:column" of the first cell of this row.
  std::string where() const;

 private:
  std::string_view text_;
  const std::string& file_;
  std::size_t begin_ = 0, line_ = 0;
  std::vector<Cell> cells_;
};

}  // namespace dtfm::io
