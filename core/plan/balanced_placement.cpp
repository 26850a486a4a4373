#include "core/plan/balanced_placement.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace dtfm {
namespace {

/// Throws Error unless all pipelines have the same stages as the first one, with one device each.
void check_stages(const Plan& plan, const std::string& file) {
  const auto& first = plan.pipelines.front().stages;
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
    const auto& stages = plan.pipelines[p].stages;
    if (stages.size() != first.size())
      throw Error(
          file,
          fmt::format("/pipelines/{}: {} stage{} where /pipelines/0 has {}; comm-cost requires equally many "
                      "stages in all pipelines",
                      p, stages.size(), stages.size() == 1 ? "" : "s", first.size()));
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const std::string where = fmt::format("/pipelines/{}/stages/{}", p, s);
      if (stages[s].devices.size() != 1)
        throw Error(file, fmt::format("{}/devices: {} devices; comm-cost supports only one device per stage",
                                      where, stages[s].devices.size()));
      if (stages[s].layers != first[s].layers)
        throw Error(
            file,
            fmt::format("{}/layers: [{}, {}] where /pipelines/0 has [{}, {}]; comm-cost requires the same "
                        "layers in this stage of all pipelines",
                        where, stages[s].layers.first, stages[s].layers.second, first[s].layers.first,
                        first[s].layers.second));
    }
  }
}

void check_all_used(const Placement& placement, const Topology& topology, const std::string& file) {
  std::vector<bool> used(topology.devices.size());
  for (const int device : placement.devices()) used[at(device)] = true;
  std::vector<std::string> unused;
  for (std::size_t device = 0; device < used.size(); ++device)
    if (!used[device]) unused.push_back(topology.devices[device].id);
  if (unused.empty()) return;
  const std::size_t count = unused.size();
  unused.resize(std::min<std::size_t>(count, 5));
  throw Error(file,
              fmt::format("/pipelines: comm-cost requires every device, but {} of {} {} in no pipeline: {}{}",
                          count, topology.size(), count == 1 ? "is" : "are", fmt::join(unused, ", "),
                          count > unused.size() ? ", …" : ""));
}

}  // namespace

Placement balanced_placement(const Plan& plan, const Topology& topology, const std::string& file) {
  check_stages(plan, file);
  Placement placement(static_cast<int>(plan.pipelines.front().stages.size()),
                      static_cast<int>(plan.pipelines.size()));
  for (int stage = 0; stage < placement.stages(); ++stage)
    for (int replica = 0; replica < placement.replicas(); ++replica)
      placement.at(stage, replica) = plan.pipelines[at(replica)].stages[at(stage)].devices.front();
  check_all_used(placement, topology, file);
  return placement;
}

}  // namespace dtfm
