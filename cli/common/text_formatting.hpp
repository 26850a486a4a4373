// Numbers and lists as people read them.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/calibration.hpp"

namespace dtfm::cli {

/// "12,345"
std::string with_thousands(long long number);

/// "1 device", "64 devices"
std::string format_count(long long number, std::string_view noun);

/// `text` in at most `width` characters, the last one "…" when something is missing.
std::string truncate_text(std::string_view text, std::size_t width);

/// (cost − bound) ÷ cost, 0 when there is nothing between them.
double relative_gap(double cost, double bound);

/// Columns as wide as their widest cell, two blanks apart.
std::string align_columns(const std::vector<std::vector<std::string>>& rows);

/// The same, its lines cut at 110 characters; the first row is the head, if there is one.
std::string table(const std::vector<std::vector<std::string>>& rows, bool has_head = true);

/// Those that are not empty, with an empty line between them.
std::string join_blocks(std::initializer_list<std::string> blocks);

/// "13.8 %"
std::string format_percent(double share);

/// A line for each of `texts`: "warning: …", in the style of one.
std::string format_remarks(std::string_view kind, const std::vector<std::string>& texts);

/// "(41.9 … 45.7, 95 %)"
std::string format_interval(const PredictionInterval& interval);

}  // namespace dtfm::cli
