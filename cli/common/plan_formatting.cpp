#include "cli/common/plan_formatting.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/common/text_formatting.hpp"
#include "core/base/index.hpp"
#include "core/plan/shards.hpp"
#include "core/io/text/units.hpp"

namespace dtfm::cli {

std::string truncated_table(const Rows& rows, std::size_t all, std::string_view noun) {
  std::string text = table(rows);
  if (const std::size_t shown = rows.size() - 1; all > shown)
    text += fmt::format("… {} more {}; the plan file (-o) has all\n",
                        with_thousands(static_cast<long long>(all - shown)), noun);
  return text;
}

std::string format_pipelines(const Topology& topology, const Plan& plan) {
  Rows rows = {{"pipeline", "micro-batches", "devices, stage by stage"}};
  for (std::size_t i = 0; i < plan.pipelines.size() && rows.size() <= max_rows; ++i) {
    const Pipeline& pipeline = plan.pipelines[i];
    std::vector<std::string> stages;
    for (const Stage& stage : pipeline.stages) {
      std::vector<std::string> ids;
      for (const int device : stage.devices) ids.push_back(topology.devices[at(device)].id);
      stages.push_back(fmt::format("{}", fmt::join(ids, "+")));
    }
    rows.push_back({fmt::format("{}", i), fmt::format("{}", pipeline.micro_batches),
                    fmt::format("{}", fmt::join(stages, " "))});
  }
  return truncated_table(rows, plan.pipelines.size(), "pipelines");
}

std::string site_composition(const Topology& topology, const std::vector<int>& devices) {
  std::vector<std::pair<int, int>> sites;  // devices, site
  for (std::size_t site = 0; site < topology.sites.size(); ++site)
    sites.emplace_back(0, static_cast<int>(site));
  for (const int device : devices) ++sites[at(topology.devices[at(device)].site)].first;
  std::stable_sort(sites.begin(), sites.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (const auto& [count, site] : sites)
    if (count > 0)
      text += fmt::format("{}{}×{}", text.empty() ? "" : " ", topology.sites[at(site)].name, count);
  return text;
}

}  // namespace dtfm::cli
