#include "simulator/iteration/plan_symmetry.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/plan/shards.hpp"

namespace dtfm::sim {
namespace {

/// Everything that matters about a pipeline or a block, as numbers to compare.
using Signature = std::vector<double>;

/// A partition of the pipelines: disjoint sets, each represented by its first pipeline.
class Blocks {
 public:
  explicit Blocks(std::size_t pipelines) : parent_(pipelines) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }
  std::size_t first_of(std::size_t pipeline) {
    while (parent_[pipeline] != pipeline) pipeline = parent_[pipeline] = parent_[parent_[pipeline]];
    return pipeline;
  }
  void join(std::size_t a, std::size_t b) {
    a = first_of(a);
    b = first_of(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }
  /// The pipelines of every block, in ascending order.
  std::vector<std::vector<std::size_t>> members() {
    std::vector<std::vector<std::size_t>> members;
    std::vector<std::size_t> number(parent_.size());
    for (std::size_t i = 0; i < parent_.size(); ++i) {
      const std::size_t first = first_of(i);
      if (first == i) {
        number[i] = members.size();
        members.emplace_back();
      }
      members[number[first]].push_back(i);
    }
    return members;
  }

 private:
  std::vector<std::size_t> parent_;
};

void join_by_host(const Topology& topology, const Plan& plan, Blocks& blocks) {
  std::map<int, std::size_t> first;  // pipeline on each host
  for (std::size_t i = 0; i < plan.pipelines.size(); ++i)
    for (const Stage& stage : plan.pipelines[i].stages)
      for (const int device : stage.devices)
        blocks.join(i, first.emplace(topology.devices[at(device)].host, i).first->second);
}

/// The stage of each pipeline that holds the layer.
std::vector<const Stage*> stages_with(const Plan& plan, int layer) {
  std::vector<const Stage*> stages;
  for (const Pipeline& pipeline : plan.pipelines)
    stages.push_back(&*std::find_if(pipeline.stages.begin(), pipeline.stages.end(), [&](const Stage& it) {
      return it.layers.first <= layer && layer < it.layers.second;
    }));
  return stages;
}

/// Joins the pipelines of every ring across sites (see `hierarchical` in core/collectives), and adds to the
/// roles of each pipeline whether its devices are in a ring.
void join_by_ring(const Topology& topology, const Plan& plan, Blocks& blocks, std::vector<Signature>& roles) {
  std::vector<const Stage*> before;
  for (int layer = 0; layer < plan.pipelines.front().stages.back().layers.second; ++layer) {
    const std::vector<const Stage*> stages = stages_with(plan, layer);
    if (stages == before) continue;
    before = stages;
    std::size_t parts = 1;
    for (const Stage* stage : stages) parts = std::max(parts, stage->devices.size());
    for (int part = 0; at(part) < parts; ++part) {
      std::map<int, std::vector<std::size_t>> by_site;
      for (std::size_t i = 0; i < stages.size(); ++i) {
        const int device = device_of_part(stages[i]->devices, part, static_cast<int>(parts));
        by_site[topology.devices[at(device)].site].push_back(i);
      }
      std::size_t rings = stages.size();
      for (const auto& [site, pipelines] : by_site) rings = std::min(rings, pipelines.size());
      for (const auto& [site, pipelines] : by_site)
        for (std::size_t k = 0; k < pipelines.size(); ++k) {
          roles[pipelines[k]].push_back(k < rings);
          if (k < rings) blocks.join(pipelines[k], by_site.begin()->second[k]);
        }
    }
  }
}

void add_device(const Topology& topology, int number, std::map<int, int>& hosts, Signature& signature) {
  const Device& device = topology.devices[at(number)];
  const int host = hosts.emplace(device.host, static_cast<int>(hosts.size())).first->second;
  for (const int it :
       {device.site, device.gpu, std::get<RuleLinks>(topology.links).link_class[at(number)], host})
    signature.push_back(it);
  signature.push_back(device.speed);
  for (const BitsPerSecond it : {device.uplink, device.downlink, device.host_uplink, device.host_downlink})
    signature.push_back(it.value());
}

Signature signature_of(const Topology& topology, const Plan& plan, const std::vector<std::size_t>& block,
                       const std::vector<Signature>& roles) {
  Signature signature;
  std::map<int, int> hosts, devices;  // numbered in the order in which they come
  for (const std::size_t i : block) {
    const Pipeline& pipeline = plan.pipelines[i];
    signature.push_back(pipeline.micro_batches);
    signature.push_back(static_cast<double>(pipeline.stages.size()));
    signature.insert(signature.end(), roles[i].begin(), roles[i].end());
    for (const Stage& stage : pipeline.stages) {
      for (const int it : {stage.layers.first, stage.layers.second, static_cast<int>(stage.devices.size())})
        signature.push_back(it);
      for (const int device : stage.devices) {
        add_device(topology, device, hosts, signature);
        signature.push_back(devices.emplace(device, static_cast<int>(devices.size())).first->second);
      }
    }
  }
  return signature;
}

/// The devices of a block in the order of its pipelines.
std::vector<int> devices_of(const Plan& plan, const std::vector<std::size_t>& block) {
  std::vector<int> devices;
  for (const std::size_t i : block)
    for (const Stage& stage : plan.pipelines[i].stages)
      devices.insert(devices.end(), stage.devices.begin(), stage.devices.end());
  return devices;
}

DeviceSymmetry initial_symmetry(std::size_t devices) {
  DeviceSymmetry symmetry;
  symmetry.block.assign(devices, no_index);
  symmetry.representative.resize(devices);
  std::iota(symmetry.representative.begin(), symmetry.representative.end(), 0);
  symmetry.twin.assign(devices, no_index);
  symmetry.blocks.assign(devices, 1);
  return symmetry;
}

/// `blocks` are interchangeable; they are numbered from `first_number`.
void add_class(const Plan& plan, const std::vector<std::vector<std::size_t>>& blocks, int first_number,
               DeviceSymmetry& symmetry) {
  const std::vector<int> first = devices_of(plan, blocks.front());
  for (std::size_t number = 0; number < blocks.size(); ++number) {
    const std::vector<int> devices = devices_of(plan, blocks[number]);
    for (std::size_t i = 0; i < devices.size(); ++i) {
      symmetry.block[at(devices[i])] = first_number + static_cast<int>(number);
      symmetry.representative[at(devices[i])] = first[i];
      symmetry.blocks[at(devices[i])] = static_cast<int>(blocks.size());
      if (number == 1) symmetry.twin[at(first[i])] = devices[i];
    }
  }
}

}  // namespace

SymmetricPlan reduce_by_symmetry(const Topology& topology, const Plan& plan) {
  const MemberRoles replicas = traits(plan.execution.gradient_sync).roles;
  const bool depends_on_order = replicas == MemberRoles::ring || replicas == MemberRoles::all_differ,
             is_hybrid = replicas == MemberRoles::by_site &&
                         plan.execution.optimizer_sharding != OptimizerSharding::none;
  // Rings across sites are found for stages of which every device has parameters of its own.
  const bool has_copies =
      replicas == MemberRoles::by_site && (plan.execution.token_parts() > 1 || plan.execution.expert > 1);
  if (!std::holds_alternative<RuleLinks>(topology.links) || depends_on_order || is_hybrid || has_copies)
    return {plan, {}};
  Blocks blocks(plan.pipelines.size());
  std::vector<Signature> roles(plan.pipelines.size());
  join_by_host(topology, plan, blocks);
  if (replicas == MemberRoles::by_site) join_by_ring(topology, plan, blocks, roles);
  if (replicas == MemberRoles::first)
    for (std::size_t i = 0; i < roles.size(); ++i) roles[i].push_back(blocks.first_of(i) == 0);

  std::map<Signature, std::vector<std::vector<std::size_t>>> classes;
  for (auto& block : blocks.members())
    classes[signature_of(topology, plan, block, roles)].push_back(std::move(block));
  SymmetricPlan result{plan, initial_symmetry(topology.devices.size())};
  std::vector<bool> is_kept(plan.pipelines.size());
  int numbered = 0;
  for (const auto& [signature, members] : classes) {
    for (const std::size_t i : members.front()) is_kept[i] = true;
    add_class(plan, members, numbered, result.symmetry);
    numbered += static_cast<int>(members.size());
  }
  result.plan.pipelines.clear();
  for (std::size_t i = 0; i < is_kept.size(); ++i)
    if (is_kept[i]) result.plan.pipelines.push_back(plan.pipelines[i]);
  return result;
}

}  // namespace dtfm::sim
