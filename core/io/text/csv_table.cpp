#include "core/io/text/csv_table.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

bool is_blank_or_comment(std::string_view line) {
  const auto first = std::find_if_not(line.begin(), line.end(), is_csv_blank);
  return first == line.end() || *first == '#';
}

bool starts_like_number(std::string_view text) {
  return !text.empty() && (std::string_view("+-.").find(text[0]) != std::string_view::npos ||
                           (text[0] >= '0' && text[0] <= '9'));
}

}  // namespace

void CsvTable::next() {
  cells_.clear();
  while (begin_ < text_.size() && cells_.empty()) {
    const std::size_t end = std::min(text_.find('\n', begin_), text_.size());
    const std::string_view line = text_.substr(begin_, end - begin_);
    begin_ = end + 1;
    ++line_;
    if (!is_blank_or_comment(line))
      for_each_cell(line, [&](std::size_t, const Cell& cell) { cells_.push_back(cell); });
  }
}

std::vector<std::string> CsvTable::take_header() {
  std::vector<std::string> names;
  if (has_row() && (cells_[0].text.starts_with('{') || cells_[0].text.starts_with('[')))
    throw error(0, "expected CSV; found JSON");
  if (!has_row() || is_missing_value(cells_[0].text) || starts_like_number(cells_[0].text)) return names;
  for (const Cell& cell : cells_) names.emplace_back(cell.text);
  next();
  return names;
}

void CsvTable::expect_cells(std::size_t count) const {
  if (cells_.size() != count)
    throw error(0, fmt::format("expected {} cells; found {}", count, cells_.size()));
}

double CsvTable::number(std::size_t cell, const Unit& unit, std::string_view what) const {
  const std::string_view text = cells_[cell].text;
  if (is_missing_value(text)) throw error(cell, fmt::format("{} is missing", what));
  double value = 0;
  try {
    value = parse_in_unit(text, unit);
  } catch (const Error& cause) {
    throw error(cell, fmt::format("{}: {}", what, cause.what()));
  }
  if (value < 0) throw error(cell, fmt::format("{} must not be negative; found {}", what, quote(text)));
  return value;
}

Error CsvTable::error(std::size_t cell, const std::string& message) const {
  if (!has_row()) return Error(position(file_, std::max<std::size_t>(line_, 1), 1), message);
  return Error(position(file_, line_, cells_[std::min(cell, cells_.size() - 1)].column), message);
}

std::string CsvTable::where() const {
  return position(file_, line_, has_row() ? cells_[0].column : 1);
}

}  // namespace dtfm::io
