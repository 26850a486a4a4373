// Reads CSV tables of numbers, such as traces and lists of events, line by line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/io/text/csv_cells.hpp"
#include "core/io/text/units.hpp"

namespace dtfm::io {

/// Iterates over the rows of a table. Blank lines and lines that begin with # are skipped. `text` and `file`
/// must outlive the table.
class CsvTable {
 public:
  CsvTable(std::string_view text, const std::string& file) : text_(text), file_(file) { next(); }

  /// False after the last row.
  bool has_row() const { return !cells_.empty(); }
  void next();
  const std::vector<Cell>& cells() const { return cells_; }
  std::size_t line() const { return line_; }
  /// If the first cell of the current row is not a number, treats the row as a header, returns its cells and
  /// advances. Otherwise returns an empty vector. Throws Error for JSON, which is given for CSV by mistake.
  std::vector<std::string> take_header();

  /// Throws Error unless the row has `count` cells.
  void expect_cells(std::size_t count) const;
  /// A cell of this row as a finite number ≥ 0, converted from `unit` to base units. `what` names the number
  /// in messages, for example "the time". Throws Error at the cell.
  double number(std::size_t cell, const Unit& unit, std::string_view what) const;
  /// Returns an Error with `message` at a cell of this row, or at the end of the file if there is no row.
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
