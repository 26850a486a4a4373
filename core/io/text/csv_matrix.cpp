#include "core/io/text/csv_matrix.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/io/text/csv_cells.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

/// The lines of `text` without trailing blank lines.
std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  while (!lines.empty() && std::all_of(lines.back().begin(), lines.back().end(), is_csv_blank))
    lines.pop_back();
  return lines;
}

bool is_number_or_missing(std::string_view text) {
  try {
    if (!is_missing_value(text)) parse_decimal(text);
  } catch (const Error&) {
    return false;
  }
  return true;
}

class MatrixReader {
 public:
  MatrixReader(std::string_view text, const std::string& file, const MatrixFormat& format)
      : file_(file), format_(format), lines_(split_lines(text)), size_(format.ids.size()) {}

  Eigen::MatrixXd read() {
    read_header();
    check_row_count();
    const auto size = static_cast<Eigen::Index>(size_);
    Eigen::MatrixXd matrix = Eigen::MatrixXd::Zero(size, size);
    for (std::size_t row = 0; row < size_; ++row) read_row(row, matrix);
    return matrix;
  }

 private:
  Error error(std::size_t line, std::size_t column, const std::string& message) const {
    return Error(position(file_, line + 1, column), message);
  }

  /// The first line is a header if it contains the device ids, or no number and no missing value; otherwise
  /// it is a row, and its errors are reported as such. If there is one more cell than devices, the first cell
  /// is a corner with arbitrary text.
  void read_header() {
    if (lines_.empty()) return;
    const std::size_t cells = count_cells(0);
    const std::size_t corner = cells == size_ + 1 ? 1 : 0;
    bool are_labels = true, are_ids = true;
    for_each_cell(lines_[0], [&](std::size_t index, const Cell& cell) {
      if (index < corner || index > size_) return;
      are_labels = are_labels && !is_number_or_missing(cell.text);
      are_ids = are_ids && index - corner < size_ && cell.text == format_.ids[index - corner];
    });
    if (!are_ids && !are_labels) return;
    header_lines_ = 1;
    id_cells_ = corner;
    check_cell_count(0);
    for_each_cell(lines_[0], [&](std::size_t index, const Cell& cell) {
      if (index >= id_cells_) check_id(0, cell, index - id_cells_);
    });
  }

  void check_id(std::size_t line, const Cell& cell, std::size_t device) const {
    if (cell.text != format_.ids[device])
      throw error(line, cell.column,
                  fmt::format("expected {}, the id of device {} of the topology; found {}",
                              quote(format_.ids[device]), device + 1, quote(cell.text)));
  }

  void check_row_count() const {
    const std::size_t rows = lines_.size() - header_lines_;
    if (rows == size_) return;
    const std::size_t line = std::min(lines_.size(), header_lines_ + size_);
    throw error(line, 1,
                fmt::format("expected {0} rows, as the topology has {0} devices; found {1}", size_, rows));
  }

  std::size_t count_cells(std::size_t line) const {
    const auto commas = std::count(lines_[line].begin(), lines_[line].end(), ',');
    return static_cast<std::size_t>(commas) + 1;
  }

  void check_cell_count(std::size_t line) const {
    const std::size_t cells = count_cells(line), expected = size_ + id_cells_;
    if (cells != expected)
      throw error(
          line, 1,
          fmt::format("expected {} cells, as the topology has {} devices; found {}", expected, size_, cells));
  }

  void read_row(std::size_t row, Eigen::MatrixXd& matrix) const {
    const std::size_t line = header_lines_ + row;
    check_cell_count(line);
    for_each_cell(lines_[line], [&](std::size_t index, const Cell& cell) {
      if (index < id_cells_) return check_id(line, cell, row);
      const std::size_t column = index - id_cells_;
      if (column == row) return;
      matrix(static_cast<Eigen::Index>(row), static_cast<Eigen::Index>(column)) =
          value(line, cell, row, column);
    });
  }

  double value(std::size_t line, const Cell& cell, std::size_t row, std::size_t column) const {
    if (is_missing_value(cell.text))
      throw error(line, cell.column,
                  fmt::format("{} → {} is not measured", format_.ids[row], format_.ids[column]));
    double value = 0;
    try {
      value = parse_in_unit(cell.text, format_.unit);
    } catch (const Error& cause) {
      throw error(line, cell.column, cause.what());
    }
    if (value < 0) throw error(line, cell.column, "must not be negative; found " + quote(cell.text));
    if (value == 0 && !format_.zero_allowed)
      throw error(line, cell.column, "must be above zero; found " + quote(cell.text));
    return value;
  }

  const std::string& file_;
  const MatrixFormat& format_;
  std::vector<std::string_view> lines_;
  std::size_t size_;
  std::size_t header_lines_ = 0, id_cells_ = 0;
};

}  // namespace

Eigen::MatrixXd parse_csv_matrix(std::string text, const std::string& file, const MatrixFormat& format) {
  const std::string checked = validate_text(std::move(text), file);
  return MatrixReader(checked, file, format).read();
}

}  // namespace dtfm::io
