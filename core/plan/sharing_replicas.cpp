#include "core/plan/sharing_replicas.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/index.hpp"

namespace dtfm {
namespace {

/// Schedules with several stages per device are refused (check_optimizer_sharding), so the layers of a stage
/// are those that its devices hold. The devices of a stage may be in several sites.
int smallest_site_share(const Topology& topology, const Plan& plan) {
  int least = static_cast<int>(plan.pipelines.size());
  const int layers = plan.pipelines.front().stages.back().layers.second;
  std::vector<std::size_t> stage(plan.pipelines.size());  // that holds the layer
  for (int layer = 0; layer < layers; ++layer) {
    std::map<std::pair<std::size_t, int>, int> replicas;  // by position in the stage, and site
    for (std::size_t i = 0; i < plan.pipelines.size(); ++i) {
      const std::vector<Stage>& stages = plan.pipelines[i].stages;
      while (stages[stage[i]].layers.second <= layer) ++stage[i];
      const std::vector<int>& devices = stages[stage[i]].devices;
      for (std::size_t k = 0; k < devices.size(); ++k) ++replicas[{k, topology.devices[at(devices[k])].site}];
    }
    for (const auto& [place, count] : replicas) least = std::min(least, count);
  }
  return least;
}

/// Pipelines whose devices are at the same sites in all stages can be in one instance.
int instance_size(const Topology& topology, const Plan& plan) {
  std::map<std::vector<int>, int> counts;  // by sites
  for (const Pipeline& pipeline : plan.pipelines) ++counts[pipeline_sites(topology, pipeline)];
  int size = 0;
  for (const auto& [sites, count] : counts) size = std::gcd(size, count);
  return size;
}

}  // namespace

std::vector<int> pipeline_sites(const Topology& topology, const Pipeline& pipeline) {
  std::vector<int> sites;
  for (const Stage& stage : pipeline.stages)
    for (const int device : stage.devices) sites.push_back(topology.devices[at(device)].site);
  return sites;
}

int sharing_replicas(const Topology& topology, const Plan& plan) {
  if (!traits(plan.execution.optimizer_sharding).optimizer) return 1;
  const GradientSyncTraits& sync = traits(plan.execution.gradient_sync);
  if (sync.has_instances) return instance_size(topology, plan);
  return sync.shares_by_site() ? smallest_site_share(topology, plan)
                               : static_cast<int>(plan.pipelines.size());
}

StateShares::StateShares(const Topology& topology, const Plan& plan)
    : topology_(topology), plan_(plan), count_(sharing_replicas(topology, plan)) {
  const GradientSyncTraits& sync = traits(plan.execution.gradient_sync);
  const bool is_sharded = traits(plan.execution.optimizer_sharding).optimizer;
  is_numbered_by_site_ = is_sharded && sync.shares_by_site() && !sync.has_instances;
  std::map<std::vector<int>, int> numbers;  // of pipelines that can be in one instance, by their sites
  for (std::size_t i = 0; i < plan.pipelines.size(); ++i) {
    const bool has_instances = is_sharded && sync.has_instances;
    const int number =
        has_instances ? numbers[pipeline_sites(topology, plan.pipelines[i])]++ : static_cast<int>(i);
    of_pipeline_.push_back(number % count_);
  }
}

std::vector<std::pair<StateShares::Layers, int>> StateShares::of(int pipeline, int stage, int rank) const {
  const Layers all = plan_.pipelines[at(pipeline)].stages[at(stage)].layers;
  if (!is_numbered_by_site_) return {{all, of_pipeline_[at(pipeline)]}};
  std::vector<std::pair<Layers, int>> result;
  for (int layer = all.first; layer < all.second; ++layer) {
    const int share = share_of_layer(pipeline, stage, rank, layer);
    if (!result.empty() && result.back().second == share)
      result.back().first.second = layer + 1;
    else
      result.push_back({{layer, layer + 1}, share});
  }
  return result;
}

/// The number of earlier pipelines whose device at the same rank is at the same site.
int StateShares::share_of_layer(int pipeline, int stage, int rank, int layer) const {
  const int site =
      topology_.devices[at(plan_.pipelines[at(pipeline)].stages[at(stage)].devices[at(rank)])].site;
  int before = 0;
  for (int i = 0; i < pipeline; ++i)
    for (const Stage& it : plan_.pipelines[at(i)].stages)
      if (it.layers.first <= layer && layer < it.layers.second && at(rank) < it.devices.size() &&
          topology_.devices[at(it.devices[at(rank)])].site == site)
        ++before;
  return before < count_ ? before : no_index;
}

}  // namespace dtfm
