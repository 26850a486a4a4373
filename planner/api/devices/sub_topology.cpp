#include "planner/api/devices/sub_topology.hpp"

#include <utility>
#include <variant>

#include "core/base/index.hpp"
#include "planner/cost/iteration_time/migration_cost.hpp"

namespace dtfm::api {
namespace {

MeasuredLinks links_of(const MeasuredLinks& links, const std::vector<int>& devices) {
  const auto size = static_cast<Eigen::Index>(devices.size());
  Eigen::MatrixXd latency(size, size), bandwidth(size, size);
  for (Eigen::Index i = 0; i < size; ++i)
    for (Eigen::Index j = 0; j < size; ++j) {
      const int from = devices[static_cast<std::size_t>(i)], to = devices[static_cast<std::size_t>(j)];
      latency(i, j) = links.latency(from, to);
      bandwidth(i, j) = links.bandwidth(from, to);
    }
  return {latency, bandwidth};
}

}  // namespace

SubTopology sub_topology(const Topology& whole, std::vector<int> devices) {
  SubTopology part{{}, std::move(devices), std::vector<int>(whole.devices.size(), cost::no_device)};
  part.topology.name = whole.name;
  part.topology.gpus = whole.gpus;
  part.topology.sites = whole.sites;
  part.topology.fairness = whole.fairness;
  part.topology.transport = whole.transport;
  part.topology.calibration = whole.calibration;
  for (const int device : part.whole) {
    part.in_part[at(device)] = part.topology.size();
    part.topology.devices.push_back(whole.devices[at(device)]);
  }
  if (const auto* measured = std::get_if<MeasuredLinks>(&whole.links)) {
    part.topology.links = links_of(*measured, part.whole);
    return part;
  }
  RuleLinks rules = std::get<RuleLinks>(whole.links);
  rules.link_class.clear();
  for (const int device : part.whole)
    rules.link_class.push_back(std::get<RuleLinks>(whole.links).link_class[at(device)]);
  part.topology.links = std::move(rules);
  return part;
}

SubTopology sub_topology(const Topology& whole, const std::vector<bool>& is_included) {
  std::vector<int> devices;
  for (int device = 0; device < whole.size(); ++device)
    if (is_included[at(device)]) devices.push_back(device);
  return sub_topology(whole, std::move(devices));
}

Plan renumber_devices(Plan plan, const std::vector<int>& numbers) {
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages)
      for (int& device : stage.devices) device = numbers[at(device)];
  return plan;
}

}  // namespace dtfm::api
