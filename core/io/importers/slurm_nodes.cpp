#include "core/io/importers/slurm_nodes.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/io/importers/nvidia_smi.hpp"
#include "core/io/importers/output_lines.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::io {
namespace {

/// The parts of `text` between commas that are in no brackets or parentheses.
std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '[' || c == '(') ++depth;
    if (c == ']' || c == ')') --depth;
    if (c != ',' || (depth > 0 && i < text.size())) continue;
    if (i > begin) parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

Error host_list_error(std::string_view list, const std::string& where) {
  return Error(where, fmt::format("expected a list of hosts such as node[01-16]; found {}", quote(list)));
}

/// Appends the names of `part`, whose ranges in brackets are expanded from left to right.
void expand_part(std::string_view part, const std::string& where, const std::string& prefix,
                 std::vector<std::string>& names) {
  const std::size_t open = part.find('[');
  if (open == std::string_view::npos) {
    if (part.find_first_of("](){}") != std::string_view::npos) throw host_list_error(part, where);
    if (names.size() == max_slurm_nodes)
      throw Error(where, fmt::format("more than {} hosts", max_slurm_nodes));
    return names.push_back(prefix + std::string(part));
  }
  const std::size_t close = part.find(']', open);
  if (close == std::string_view::npos || close == open + 1) throw host_list_error(part, where);
  const std::string begin = prefix + std::string(part.substr(0, open));
  for (const std::string_view range : split_text(part.substr(open + 1, close - open - 1), ",")) {
    const std::size_t dash = range.find('-');
    const std::string_view first = range.substr(0, dash);
    const auto low = small_number(first);
    const auto high = dash == std::string_view::npos ? low : small_number(range.substr(dash + 1));
    if (!low || !high || *high < *low) throw host_list_error(part, where);
    if (*high - *low >= static_cast<int>(max_slurm_nodes))
      throw Error(where, fmt::format("more than {} hosts", max_slurm_nodes));
    for (int number = *low; number <= *high; ++number)
      expand_part(part.substr(close + 1), where, fmt::format("{}{:0{}}", begin, number, first.size()), names);
  }
}

bool is_gres(std::string_view word) {
  return word == "(null)" || word == "N/A" || word == "gpu" || word.starts_with("gpu:") ||
         word.find(",gpu:") != std::string_view::npos;
}

/// One item of a list of generic resources, such as `gpu:h100:8(S:0-1)`; nullopt if it is no GPU.
std::optional<SlurmGpus> parse_gres_item(std::string_view item, const std::string& where, std::size_t line) {
  const auto fields = split_text(item.substr(0, item.find('(')), ":");
  if (fields.empty() || fields.front() != "gpu") return std::nullopt;
  SlurmGpus gpus;
  const auto count = fields.size() > 1 ? small_number(fields.back()) : std::optional(1);
  const std::size_t named = fields.size() - (fields.size() > 1 && count ? 1 : 0);
  if (named == 2) gpus.type = fields[1];
  gpus.count = count.value_or(1);
  if (named > 2 || gpus.count < 1 || gpus.count > static_cast<int>(max_host_gpus))
    throw line_error(where, line, fmt::format("expected gpu:TYPE:COUNT; found {}", quote(item)));
  return gpus;
}

struct SinfoColumns {
  std::size_t nodes = 0, gres = 1;
};

/// The columns of a header; nullopt if the line is none.
std::optional<SinfoColumns> parse_sinfo_header(const std::vector<std::string_view>& words) {
  const auto nodes = std::find_if(words.begin(), words.end(), [](std::string_view word) {
    return word == "NODELIST" || word == "HOSTNAMES";
  });
  const auto gres = std::find(words.begin(), words.end(), "GRES");
  if (nodes == words.end() || gres == words.end()) return std::nullopt;
  return SinfoColumns{static_cast<std::size_t>(nodes - words.begin()),
                      static_cast<std::size_t>(gres - words.begin())};
}

/// `KEY=VALUE` in the words of a line; empty if it is not there.
std::string_view value_of(const std::vector<std::string_view>& words, std::string_view key) {
  for (const std::string_view word : words)
    if (word.starts_with(key) && word.substr(key.size()).starts_with('=')) return word.substr(key.size() + 1);
  return {};
}

}  // namespace

std::vector<std::string> expand_host_list(std::string_view list, const std::string& where) {
  std::vector<std::string> names;
  for (const std::string_view part : split_at_commas(list)) expand_part(part, where, "", names);
  if (names.empty()) throw host_list_error(list, where);
  return names;
}

std::vector<SlurmNode> parse_sinfo(const std::string& text, const std::string& where) {
  std::vector<SlurmNode> nodes;
  std::map<std::string, std::size_t> index_of;
  std::optional<SinfoColumns> header;
  for_each_line(text, [&](std::size_t number, std::string_view line) {
    const auto words = split_text(line, " \t|");
    if (words.empty()) return;
    if (const auto columns = parse_sinfo_header(words)) {
      header = columns;
      return;
    }
    SinfoColumns columns = header.value_or(SinfoColumns{});
    if (!header && is_gres(words.front())) columns = {1, 0};
    if (words.size() <= std::max(columns.nodes, columns.gres))
      throw line_error(where, number, fmt::format("expected nodes and their GRES; found {}", quote(line)));
    std::vector<SlurmGpus> gpus;
    for (const std::string_view item : split_at_commas(words[columns.gres]))
      if (auto found = parse_gres_item(item, where, number)) gpus.push_back(std::move(*found));
    if (gpus.empty()) return;
    for (std::string& name : expand_host_list(words[columns.nodes], fmt::format("{}:{}", where, number))) {
      const auto [known, is_new] = index_of.emplace(name, nodes.size());
      if (is_new)
        nodes.push_back({std::move(name), gpus});
      else if (nodes[known->second].gpus != gpus)
        throw line_error(where, number,
                         fmt::format("node {} has other GPUs than in an earlier line", quote(known->first)));
      if (nodes.size() > max_slurm_nodes)
        throw Error(where, fmt::format("more than {} nodes", max_slurm_nodes));
    }
  });
  if (nodes.empty())
    throw Error(where,
                "lists no node with GPUs (`gpu:` in GRES): check with `sinfo -o \"%N %G\"`, or name the "
                "hosts instead of --slurm");
  return nodes;
}

std::vector<SlurmSwitch> parse_slurm_switches(const std::string& text, const std::string& where) {
  std::vector<SlurmSwitch> switches;
  std::size_t lines = 0;
  for_each_line(text, [&](std::size_t number, std::string_view line) {
    const auto words = split_text(line, " \t");
    if (words.empty()) return;
    ++lines;
    if (line.find("No topology information") != std::string_view::npos) return;
    const bool is_block = words.front().starts_with("BlockName=");
    if (!is_block && !words.front().starts_with("SwitchName="))
      throw line_error(where, number,
                       fmt::format("expected SwitchName= or BlockName=; found {}", quote(line)));
    if (!is_block && value_of(words, "Level") != "0") return;
    const std::string_view nodes = value_of(words, "Nodes");
    if (nodes.empty() || nodes == "(null)") return;
    switches.push_back({std::string(words.front().substr(words.front().find('=') + 1)),
                        expand_host_list(nodes, fmt::format("{}:{}", where, number))});
  });
  return switches;
}

}  // namespace dtfm::io
