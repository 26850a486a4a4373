#include "core/io/importers/gpu_matrix.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/io/importers/nvidia_smi.hpp"
#include "core/io/importers/output_lines.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::io {
namespace {

constexpr int max_nvlinks = 64;  // of one pair; today's GPUs have at most 18 links

constexpr std::array<GpuPathName, 7> paths{{
    {GpuPath::same, "X", "the same GPU"},
    {GpuPath::nvlink, "NV", "NVLink"},
    {GpuPath::pix, "PIX", "one PCIe switch"},
    {GpuPath::pxb, "PXB", "several PCIe switches"},
    {GpuPath::phb, "PHB", "PCIe through the CPU"},
    {GpuPath::node, "NODE", "PCIe through the CPUs of one NUMA node"},
    {GpuPath::sys, "SYS", "PCIe and the link between NUMA nodes"},
}};

/// The GPU that a name such as `GPU12` means; nullopt for other words.
std::optional<int> gpu_number(std::string_view word) {
  if (!word.starts_with("GPU")) return std::nullopt;
  const auto number = small_number(word.substr(3));
  return number && *number < static_cast<int>(max_host_gpus) ? number : std::nullopt;
}

std::optional<GpuConnection> parse_connection(std::string_view word) {
  if (word == "SOC") return GpuConnection{GpuPath::sys};  // drivers before version 375
  if (word == "PSB") return GpuConnection{GpuPath::pix};  // the switch on a board with two GPUs
  if (word.starts_with("NV")) {
    const auto links = small_number(word.substr(2));
    if (!links || *links < 1 || *links > max_nvlinks) return std::nullopt;
    return GpuConnection{GpuPath::nvlink, *links};
  }
  for (const GpuPathName& row : paths)
    if (row.name == word) return GpuConnection{row.path};
  return std::nullopt;
}

struct MatrixHeader {
  std::vector<std::string_view> devices;  // GPUs and network cards
  bool has_cpus = false, has_numa = false;
};

/// The header, if `line` is one: names of devices, of which the first is a GPU, then those of affinities.
std::optional<MatrixHeader> parse_header(std::string_view line) {
  MatrixHeader header;
  const std::size_t cpus = line.find("CPU Affinity"), numa = line.find("NUMA Affinity");
  header.has_cpus = cpus != std::string_view::npos;
  header.has_numa = numa != std::string_view::npos;
  const std::size_t end = std::min({cpus, numa, line.find("GPU NUMA ID"), line.size()});
  header.devices = split_text(line.substr(0, end), " \t");
  // Rows begin with a GPU, too, but have X or a path next.
  const bool is_header = !header.devices.empty() && gpu_number(header.devices.front()) &&
                         (header.devices.size() == 1 || !parse_connection(header.devices[1]));
  return is_header ? std::optional(header) : std::nullopt;
}

/// The NUMA node in the affinities that follow the cells of a row, which may be missing, empty, `N/A` or, of
/// several nodes, `0-1`. Of several, the first counts.
std::optional<int> numa_node(std::string_view rest, const MatrixHeader& header) {
  if (!header.has_numa) return std::nullopt;
  std::vector<std::string_view> cells;
  if (rest.find('\t') == std::string_view::npos) {
    cells = split_text(rest, " ");
  } else {
    for (std::size_t begin = 0; begin <= rest.size();) {
      const std::size_t end = std::min(rest.find('\t', begin), rest.size());
      cells.push_back(trimmed(rest.substr(begin, end - begin)));
      begin = end + 1;
    }
  }
  const std::size_t column = header.has_cpus ? 1 : 0;
  if (cells.size() <= column) return std::nullopt;
  return small_number(cells[column].substr(0, cells[column].find_first_of("-,")));
}

class MatrixParser {
 public:
  MatrixParser(const std::string& text, const std::string& where)
      : plain_(without_styles(text)), where_(where) {}

  GpuMatrix parse() {
    for_each_line(plain_, [&](std::size_t number, std::string_view line) { read(number, line); });
    if (!header_)
      throw Error(where_, plain_.find_first_not_of(" \t\n") == std::string::npos
                              ? "is empty: run `nvidia-smi topo -m` on the host to see why"
                              : fmt::format("has no header `GPU0 …`, so it is not what `nvidia-smi topo -m` "
                                            "prints; it begins with {}",
                                            quote(trimmed(plain_.substr(0, plain_.find('\n'))))));
    if (matrix_.connections.size() < matrix_.gpus.size())
      throw Error(where_, fmt::format("ends before the row of GPU{}: run `nvidia-smi topo -m` again",
                                      matrix_.gpus[matrix_.connections.size()]));
    check_symmetry();
    return std::move(matrix_);
  }

 private:
  void read(std::size_t number, std::string_view line) {
    if (!header_) {
      header_ = parse_header(line);
      if (header_) read_columns(number);
      return;
    }
    const auto words = split_text(line, " \t");
    if (words.empty()) return;
    if (matrix_.connections.size() < matrix_.gpus.size())
      read_row(number, line, words);
    else
      read_card_name(words);
  }

  void read_columns(std::size_t number) {
    for (std::size_t i = 0; i < header_->devices.size(); ++i) {
      const auto gpu = gpu_number(header_->devices[i]);
      if (!gpu) {
        matrix_.network_cards.emplace_back(header_->devices[i]);
        continue;
      }
      if (matrix_.row(*gpu) >= 0)
        throw line_error(where_, number, fmt::format("GPU{} is listed twice", *gpu));
      matrix_.gpus.push_back(*gpu);
      columns_.push_back(i);
    }
  }

  void read_row(std::size_t number, std::string_view line, const std::vector<std::string_view>& words) {
    const int expected = matrix_.gpus[matrix_.connections.size()];
    const auto gpu = gpu_number(words.front());
    if (!gpu && std::find(matrix_.network_cards.begin(), matrix_.network_cards.end(), words.front()) !=
                    matrix_.network_cards.end())
      return;  // a card's row between those of GPUs
    if (gpu != expected)
      throw line_error(where_, number,
                       fmt::format("expected the row of GPU{}; found {}", expected, quote(words.front())));
    if (words.size() <= header_->devices.size())
      throw line_error(where_, number,
                       fmt::format("expected {} cells; found {}", header_->devices.size(), words.size() - 1));
    std::vector<GpuConnection>& row = matrix_.connections.emplace_back();
    for (const std::size_t column : columns_) row.push_back(read_cell(number, words[column + 1], row.size()));
    const std::string_view last = words[header_->devices.size()];
    const auto end = static_cast<std::size_t>(last.data() - line.data()) + last.size();
    // The blanks after a padded cell such as ` X ` belong to it, and a tab ends it.
    std::string_view rest = line.substr(std::min(line.find_first_not_of(' ', end), line.size()));
    if (rest.starts_with('\t')) rest.remove_prefix(1);
    matrix_.numa_nodes.push_back(numa_node(rest, *header_));
  }

  GpuConnection read_cell(std::size_t number, std::string_view word, std::size_t column) const {
    const std::size_t own = matrix_.connections.size() - 1;
    const auto connection = parse_connection(word);
    if (connection && (connection->path == GpuPath::same) == (column == own)) return *connection;
    throw line_error(
        where_, number,
        fmt::format("GPU{} to GPU{}: expected {}; found {}", matrix_.gpus[own], matrix_.gpus[column],
                    column == own ? "X" : "NV#, PIX, PXB, PHB, NODE or SYS", quote(word)));
  }

  /// A line of the legend of network cards: `NIC0: mlx5_0`.
  void read_card_name(const std::vector<std::string_view>& words) {
    if (words.size() != 2 || !words[0].ends_with(':')) return;
    const auto card = std::find(matrix_.network_cards.begin(), matrix_.network_cards.end(),
                                words[0].substr(0, words[0].size() - 1));
    if (card != matrix_.network_cards.end()) *card = words[1];
  }

  void check_symmetry() const {
    for (std::size_t a = 0; a < matrix_.gpus.size(); ++a)
      for (std::size_t b = 0; b < a; ++b)
        if (!(matrix_.connections[a][b] == matrix_.connections[b][a]))
          throw Error(where_,
                      fmt::format("GPU{} to GPU{} differs from GPU{} to GPU{}: run `nvidia-smi topo -m` "
                                  "again",
                                  matrix_.gpus[a], matrix_.gpus[b], matrix_.gpus[b], matrix_.gpus[a]));
  }

  std::string plain_;
  const std::string& where_;
  std::optional<MatrixHeader> header_;  // refers to plain_
  std::vector<std::size_t> columns_;    // of the GPUs
  GpuMatrix matrix_;
};

}  // namespace

const GpuPathName& path_name(GpuPath path) {
  return paths[at(static_cast<int>(path))];
}

int GpuMatrix::row(int gpu) const {
  const auto found = std::find(gpus.begin(), gpus.end(), gpu);
  return found == gpus.end() ? no_index : static_cast<int>(found - gpus.begin());
}

GpuMatrix parse_gpu_matrix(const std::string& text, const std::string& where) {
  return MatrixParser(text, where).parse();
}

}  // namespace dtfm::io
