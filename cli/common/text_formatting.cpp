#include "cli/common/text_formatting.hpp"

#include <algorithm>
#include <cmath>

#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/common/style.hpp"

namespace dtfm::cli {
namespace {

bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

bool has_no_width(char byte) {
  return continues_character(byte) || is_style_mark(byte);
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !has_no_width(c); }));
}

}  // namespace

std::string truncate_text(std::string_view text, std::size_t width) {
  if (characters(text) <= width) return std::string(text);
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size(); ++end)
    if (!has_no_width(text[end]) && ++seen >= width) break;
  return std::string(text.substr(0, end)) + "…";
}

double relative_gap(double cost, double bound) {
  return cost > bound ? (cost - bound) / cost : 0;
}

std::string align_columns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], characters(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text += std::string(widths[i] - characters(row[i]) + 2, ' ');
    }
    text += "\n";
  }
  return text;
}

std::size_t output_width() {
  winsize size{};  // ioctl fails if standard output is not a terminal
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : unlimited_width;
}

std::string table(const std::vector<std::vector<std::string>>& rows, bool has_head, std::size_t width) {
  const std::string lines = align_columns(rows);
  std::string text;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = lines.find('\n', begin);
    const std::string cut = truncate_text(std::string_view(lines).substr(begin, end - begin), width);
    text += (has_head && text.empty() ? styled(Style::heading, cut) : cut) + "\n";
    begin = end + 1;
  }
  return text;
}

std::string join_blocks(std::initializer_list<std::string> blocks) {
  std::string text;
  for (const std::string& block : blocks)
    if (!block.empty()) text += fmt::format("{}{}", text.empty() ? "" : "\n", block);
  return text;
}

std::string format_change_percent(double share) {
  return fmt::format("{:+.0f} %", std::round(100 * share) + 0.0);
}

std::string format_remarks(std::string_view kind, const std::vector<std::string>& texts) {
  std::string lines;
  for (const std::string& text : texts)
    lines += styled(Style::warning, fmt::format("{}: {}", kind, text)) + "\n";
  return lines;
}

std::string format_interval(const PredictionInterval& interval) {
  return fmt::format("({:.4g} … {:.4g}, {:.0f} % interval from {})", interval.low_s, interval.high_s,
                     100 * interval.level, interval.source);
}

}  // namespace dtfm::cli
