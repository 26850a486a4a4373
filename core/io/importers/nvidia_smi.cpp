#include "core/io/importers/nvidia_smi.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "core/io/importers/output_lines.hpp"
#include "core/io/text/csv_cells.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/units.hpp"

namespace dtfm::io {
namespace {

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for_each_cell(line, [&](std::size_t, const Cell& cell) { cells.push_back(cell.text); });
  return cells;
}

/// Whether the driver writes `text` for a value that it does not know: [N/A], [Not Supported], N/A,
/// [Unknown Error].
bool is_unknown(std::string_view text) {
  return text == "N/A" || text.starts_with("[");
}

/// A memory in MiB, with or without the unit.
double parse_mebibytes(std::string_view text, const std::string& where, std::size_t line) {
  constexpr double max_mib = 1e9;
  if (is_unknown(text))
    throw line_error(where, line,
                     fmt::format("the driver does not know the memory of this GPU ({}): describe the host by "
                                 "hand (docs/files/topology.md)",
                                 quote(text)));
  std::string_view digits = text;
  if (digits.ends_with("MiB")) digits = trimmed(digits.substr(0, digits.size() - 3));
  double value = 0;
  try {
    value = parse_decimal(digits);
  } catch (const Error&) {
  }
  if (!(value > 0 && value < max_mib))
    throw line_error(where, line, fmt::format("expected a memory in MiB; found {}", quote(text)));
  return value;
}

/// The number before the first `g` and the memory of a profile such as "1g.5gb", "1c.3g.20gb" or "1g.5gb+me".
std::optional<double> profile_memory_gb(std::string_view profile) {
  const std::size_t end = profile.find("gb");
  const std::size_t dot = profile.rfind('.', end);
  constexpr std::size_t max_length = 16;
  if (end == std::string_view::npos || dot == std::string_view::npos || profile.size() > max_length)
    return std::nullopt;
  const auto gigabytes = small_number(profile.substr(dot + 1, end - dot - 1));
  return gigabytes && *gigabytes > 0 ? std::optional<double>(*gigabytes) : std::nullopt;
}

/// The number in a line that begins with `GPU N:`; nullopt for other lines.
std::optional<int> gpu_of_line(std::string_view line) {
  if (!line.starts_with("GPU ")) return std::nullopt;
  return small_number(line.substr(4, line.find(':') == std::string_view::npos ? 0 : line.find(':') - 4));
}

}  // namespace

std::vector<QueriedGpu> parse_gpu_query(const std::string& text, const std::string& where) {
  constexpr std::size_t columns = 5, max_name = 96;
  std::vector<QueriedGpu> gpus;
  std::set<int> indices;
  for_each_line(text, [&](std::size_t number, std::string_view line) {
    const auto cells = cells_of(line);
    if (trimmed(line).empty() || cells.front() == "index") return;
    if (line.starts_with("No devices were found")) return;
    const auto index = small_number(cells.front());
    if (cells.size() != columns || !index || *index >= static_cast<int>(max_host_gpus))
      throw line_error(
          where, number,
          fmt::format("expected `index, name, memory, bus id, uuid` of a GPU; found {}", quote(line)));
    if (cells[1].empty() || cells[1].size() > max_name || is_unknown(cells[1]))
      throw line_error(where, number, fmt::format("expected the name of a GPU; found {}", quote(cells[1])));
    if (!indices.insert(*index).second)
      throw line_error(where, number, fmt::format("GPU {} is listed twice", *index));
    gpus.push_back({*index, std::string(cells[1]), parse_mebibytes(cells[2], where, number),
                    std::string(cells[3]), std::string(cells[4])});
  });
  if (gpus.empty())
    throw Error(where,
                "lists no GPU: check with `nvidia-smi` that the driver sees them, or leave this host out");
  std::sort(gpus.begin(), gpus.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
  return gpus;
}

std::vector<std::optional<PcieSlot>> parse_pcie_query(const std::string& text, const std::string& where) {
  constexpr int max_generation = 16, max_lanes = 32;
  std::vector<std::optional<PcieSlot>> slots;
  for_each_line(text, [&](std::size_t number, std::string_view line) {
    const auto cells = cells_of(line);
    if (trimmed(line).empty() || cells.front().starts_with("pcie.")) return;
    const bool is_pair = cells.size() == 2 && slots.size() < max_host_gpus;
    if (is_pair && (is_unknown(cells[0]) || is_unknown(cells[1]))) return slots.push_back(std::nullopt);
    const auto generation = is_pair ? small_number(cells[0]) : std::nullopt;
    const auto lanes = is_pair ? small_number(cells[1]) : std::nullopt;
    if (!generation || !lanes || *generation < 1 || *generation > max_generation || *lanes < 1 ||
        *lanes > max_lanes)
      throw line_error(where, number,
                       fmt::format("expected `generation, lanes` of PCIe; found {}", quote(line)));
    slots.push_back(PcieSlot{*generation, *lanes});
  });
  return slots;
}

std::vector<MigInstance> parse_mig_instances(const std::string& text, const std::string& where) {
  std::vector<MigInstance> instances;
  std::optional<int> gpu;
  for_each_line(text, [&](std::size_t number, std::string_view line) {
    if (const auto index = gpu_of_line(line)) gpu = index;
    const auto words = split_text(line, " \t");
    if (words.size() < 2 || words[0] != "MIG") return;
    const auto memory = profile_memory_gb(words[1]);
    if (!gpu || !memory || instances.size() == max_host_gpus)
      throw line_error(where, number, fmt::format("expected a MIG instance of a GPU; found {}", quote(line)));
    instances.push_back({*gpu, std::string(words[1]), *memory});
  });
  return instances;
}

std::map<int, ActiveNvlinks> parse_nvlink_status(const std::string& text, const std::string& where) {
  constexpr double max_rate = 1e4;  // GB/s
  std::map<int, ActiveNvlinks> status;
  std::optional<int> gpu;
  for_each_line(text, [&](std::size_t number, std::string_view line) {
    if (const auto index = gpu_of_line(line)) gpu = index;
    const auto words = split_text(line, " \t:");
    if (words.size() != 4 || words[0] != "Link" || words[3] != "GB/s") return;
    double rate = 0;
    try {
      rate = parse_decimal(words[2]);
    } catch (const Error&) {
    }
    if (!gpu || !(rate > 0 && rate < max_rate))
      throw line_error(where, number, fmt::format("expected `Link N: RATE GB/s`; found {}", quote(line)));
    ActiveNvlinks& active = status[*gpu];
    const BitsPerSecond found(rate * 1e9 * bits_per_byte);
    active.rate = active.rate ? std::min(*active.rate, found) : found;
    ++active.links;
  });
  return status;
}

}  // namespace dtfm::io
