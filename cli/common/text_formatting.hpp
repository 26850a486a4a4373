// Formats numbers and tables as text.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/cluster/calibration.hpp"
#include "core/io/text/format_number.hpp"

namespace dtfm::cli {

using io::format_count;
using io::format_percent;
using io::short_seconds;
using io::with_thousands;

/// Truncates `text` to `width` characters, of which the last is "…" if anything was removed.
std::string truncate_text(std::string_view text, std::size_t width);

/// Returns (cost − bound) ÷ cost, or 0 if the cost does not exceed the bound.
double relative_gap(double cost, double bound);

/// Returns lines whose columns are as wide as their widest cell, separated by two spaces.
std::string align_columns(const std::vector<std::vector<std::string>>& rows);

/// The width of tables that must not be cut.
inline constexpr std::size_t unlimited_width = std::string::npos;

/// The width of the terminal that standard output is connected to; `unlimited_width` if it is a file, a pipe
/// or a terminal of unknown width.
std::size_t output_width();

/// Like align_columns, with lines truncated to `width` characters. If `has_head`, the first row is a heading.
std::string table(const std::vector<std::vector<std::string>>& rows, bool has_head = true,
                  std::size_t width = output_width());

/// Joins the non-empty blocks with an empty line between them.
std::string join_blocks(std::initializer_list<std::string> blocks);

/// "+14 %", "-3 %", or "+0 %" also for a share that rounds to 0 from below.
std::string format_change_percent(double share);

/// Returns one line per text, such as "warning: …", in the style of a warning.
std::string format_remarks(std::string_view kind, const std::vector<std::string>& texts);

/// "(41.9 … 45.7, 95 % interval from calibration)"
std::string format_interval(const PredictionInterval& interval);

}  // namespace dtfm::cli
