#include "planner/api/plan_diff.hpp"

#include <map>
#include <set>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/virtual_stages.hpp"

namespace dtfm::api {
namespace {

std::map<std::string, DeviceRole> device_roles(const RunningPlan& running) {
  std::map<std::string, DeviceRole> result;
  for (const Pipeline& pipeline : running.plan.pipelines) {
    const auto& stages = pipeline.stages;
    const auto layers = layers_by_stage(pipeline, stage_chunks(running.job));
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const std::size_t degree = stages[s].devices.size();
      // The shards of a stage have equal sizes; with another degree, several may overlap this one.
      const auto adjacent_devices = [&](std::size_t rank, std::size_t stage) {
        std::vector<std::string> names;
        if (stage >= stages.size()) return names;
        const std::vector<int>& devices = stages[stage].devices;
        for (std::size_t i = rank * devices.size() / degree; i * degree < (rank + 1) * devices.size(); ++i)
          names.push_back(running.ids[at(devices[i])]);
        return names;
      };
      for (std::size_t rank = 0; rank < degree; ++rank)
        result[running.ids[at(stages[s].devices[rank])]] = {
            static_cast<int>(s),
            static_cast<int>(rank),
            static_cast<int>(degree),
            pipeline.micro_batches,
            layers[s],
            s == 0 ? std::vector<std::string>{} : adjacent_devices(rank, s - 1),
            adjacent_devices(rank, s + 1),
            stages[s].warm_up,
            stages[s].recompute_layers,
            stages[s].passes};
    }
  }
  return result;
}

void check_devices(const RunningPlan& running, const Plan& plan, const Topology& topology) {
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p)
    for (std::size_t s = 0; s < plan.pipelines[p].stages.size(); ++s)
      for (std::size_t i = 0; i < plan.pipelines[p].stages[s].devices.size(); ++i)
        if (plan.pipelines[p].stages[s].devices[i] == cost::no_device) {
          const int device = running.plan.pipelines[p].stages[s].devices[i];
          throw Error(running.name,
                      fmt::format("/pipelines/{}/stages/{}/devices/{}: topology {} has no device {}; "
                                  "only the first plan may use devices that are gone",
                                  p, s, i, topology.name, running.ids[at(device)]));
        }
}

}  // namespace

DeviceDiff compare_devices(const RunningPlan& first, const RunningPlan& second) {
  DeviceDiff diff;
  const auto before = device_roles(first), after = device_roles(second);
  for (const auto& [id, role] : before)
    if (!after.contains(id)) diff.leave.push_back(id);
  for (const auto& [id, role] : after) {
    const auto then = before.find(id);
    if (then == before.end())
      diff.enter.push_back(id);
    else if (then->second != role)
      diff.changes.push_back({id, then->second, role});
  }
  return diff;
}

Topology topology_without_links(const RunningPlan& first, const RunningPlan& second) {
  Topology topology;
  topology.name = "of both plans";
  std::set<std::string> known;
  for (const RunningPlan* plan : {&first, &second})
    for (const std::string& id : plan->ids) {
      if (!known.insert(id).second) continue;
      topology.devices.emplace_back();
      topology.devices.back().id = id;
    }
  return topology;
}

PlanDiff compare_plans(const PlanDiffRequest& request) {
  const auto& [first, second, problem, knows_network] = request;
  PlanDiff diff{compare_devices(first, second), model_difference(first.job, second.job), {}};
  if (diff.models) return diff;
  const search::WarmStart before = warm_start(first, problem.topology, 0),
                          after = warm_start(second, problem.topology, 0);
  check_devices(second, after.plan, problem.topology);
  diff.migration = migration_between(problem, before, after, knows_network);
  check_migration_steps(first, diff.migration.steps, static_cast<int>(pipeline_major(after.plan).size()));
  return diff;
}

}  // namespace dtfm::api
