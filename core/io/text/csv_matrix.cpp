#include "core/io/text/csv_matrix.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/io/text/csv_cells.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

/// Calls visit(index, line) for each line, without a byte-order mark.
template <class Visit>
void for_each_line(const OpenText& open, const Visit& visit) {
  const auto append_next = open();
  std::string text;
  std::size_t index = 0, searched = 0;
  const auto visit_next = [&](std::string_view line) {
    if (index == 0 && line.starts_with(byte_order_mark)) line.remove_prefix(byte_order_mark.size());
    visit(index++, line);
  };
  while (append_next(text)) {
    std::size_t begin = 0, end;
    while ((end = text.find('\n', std::max(begin, searched))) != std::string::npos) {
      visit_next(std::string_view(text).substr(begin, end - begin));
      begin = end + 1;
    }
    text.erase(0, begin);
    searched = text.size();
  }
  if (!text.empty()) visit_next(text);
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
  MatrixReader(const OpenText& open, const std::string& file, const MatrixFormat& format)
      : open_(open), file_(file), format_(format), size_(format.ids.size()) {}

  Eigen::MatrixXd read() {
    check_lines();
    if (lines_ > 0) read_header();
    check_row_count();
    const auto size = static_cast<Eigen::Index>(size_);
    Eigen::MatrixXd matrix = Eigen::MatrixXd::Zero(size, size);
    for_each_line(open_, [&](std::size_t number, std::string_view line) {
      if (number >= header_lines_ && number < header_lines_ + size_)
        read_row(number, line, number - header_lines_, matrix);
    });
    return matrix;
  }

 private:
  Error error(std::size_t line, std::size_t column, const std::string& message) const {
    return Error(position(file_, line + 1, column), message);
  }

  /// Counts the lines without trailing blank ones.
  void check_lines() {
    for_each_line(open_, [&](std::size_t number, std::string_view line) {
      check_characters(line, file_, number + 1);
      if (!std::all_of(line.begin(), line.end(), is_csv_blank)) lines_ = number + 1;
      if (number == 0) first_line_ = line;
    });
  }

  /// The first line is a header if it contains the device ids, or no number and no missing value; otherwise
  /// it is a row, and its errors are reported as such. If there is one more cell than devices, the first cell
  /// is a corner with arbitrary text.
  void read_header() {
    const std::size_t cells = count_cells(first_line_);
    const std::size_t corner = cells == size_ + 1 ? 1 : 0;
    bool are_labels = true, are_ids = true;
    for_each_cell(first_line_, [&](std::size_t index, const Cell& cell) {
      if (index < corner || index > size_) return;
      are_labels = are_labels && !is_number_or_missing(cell.text);
      are_ids = are_ids && index - corner < size_ && cell.text == format_.ids[index - corner];
    });
    if (!are_ids && !are_labels) return;
    header_lines_ = 1;
    id_cells_ = corner;
    check_cell_count(0, first_line_);
    for_each_cell(first_line_, [&](std::size_t index, const Cell& cell) {
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
    const std::size_t rows = lines_ - header_lines_;
    if (rows == size_) return;
    const std::size_t line = std::min(lines_, header_lines_ + size_);
    throw error(line, 1,
                fmt::format("expected {0} rows, as the topology has {0} devices; found {1}", size_, rows));
  }

  static std::size_t count_cells(std::string_view line) {
    const auto commas = std::count(line.begin(), line.end(), ',');
    return static_cast<std::size_t>(commas) + 1;
  }

  void check_cell_count(std::size_t number, std::string_view line) const {
    const std::size_t cells = count_cells(line), expected = size_ + id_cells_;
    if (cells != expected)
      throw error(
          number, 1,
          fmt::format("expected {} cells, as the topology has {} devices; found {}", expected, size_, cells));
  }

  void read_row(std::size_t number, std::string_view line, std::size_t row, Eigen::MatrixXd& matrix) const {
    check_cell_count(number, line);
    for_each_cell(line, [&](std::size_t index, const Cell& cell) {
      if (index < id_cells_) return check_id(number, cell, row);
      const std::size_t column = index - id_cells_;
      if (column == row) return;
      matrix(static_cast<Eigen::Index>(row), static_cast<Eigen::Index>(column)) =
          value(number, cell, row, column);
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

  const OpenText& open_;
  const std::string& file_;
  const MatrixFormat& format_;
  std::string first_line_;
  std::size_t size_, lines_ = 0;
  std::size_t header_lines_ = 0, id_cells_ = 0;
};

}  // namespace

Eigen::MatrixXd parse_csv_matrix(const OpenText& open, const std::string& file, const MatrixFormat& format) {
  return MatrixReader(open, file, format).read();
}

Eigen::MatrixXd parse_csv_matrix(std::string_view text, const std::string& file, const MatrixFormat& format) {
  const OpenText open = [&] {
    return [&, is_read = false](std::string& whole) mutable {
      if (std::exchange(is_read, true)) return false;
      whole += text;
      return true;
    };
  };
  return parse_csv_matrix(open, file, format);
}

}  // namespace dtfm::io
