#include "cli/common/topology_formatting.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cli/common/text_formatting.hpp"
#include "core/base/index.hpp"

namespace dtfm::cli {

std::string format_topology_size(const Topology& topology) {
  return fmt::format("{}: {} in {}", topology.name, format_count(topology.size(), "device"),
                     format_count(static_cast<long long>(topology.sites.size()), "site"));
}

std::string gpu_name(const Topology& topology, const Device& device) {
  return device.gpu < 0 ? "GPU not given" : topology.gpus[at(device.gpu)].name;
}

NameCounts count_names(const std::vector<std::string>& names) {
  NameCounts counts;
  for (const std::string& name : names) {
    const auto known =
        std::find_if(counts.begin(), counts.end(), [&](const auto& count) { return count.first == name; });
    if (known == counts.end())
      counts.emplace_back(name, 1);
    else
      ++known->second;
  }
  return counts;
}

std::string format_counts(const NameCounts& counts) {
  std::string text;
  for (const auto& [name, count] : counts)
    text += fmt::format("{}{} × {}", text.empty() ? "" : ", ", count, name);
  return text;
}

}  // namespace dtfm::cli
