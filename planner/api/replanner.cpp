#include "planner/api/replanner.hpp"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/search/iteration_time/iteration_search.hpp"

namespace dtfm::api {
namespace {

// Both set by hand: 1000 evaluations take about a second on 32 devices, and instances in published spot
// traces live for about half an hour.
constexpr long long evaluations = 1'000;
constexpr double horizon_s = 1800;

/// Some devices of a topology, with their indices in it.
struct SubTopology {
  Topology topology;
  std::vector<int> whole;    // index in the whole topology, by device of the part
  std::vector<int> in_part;  // index in the part or no_device, by device of the whole
};

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

SubTopology sub_topology(const Topology& whole, const std::vector<bool>& is_available) {
  SubTopology part{{}, {}, std::vector<int>(is_available.size(), cost::no_device)};
  part.topology.name = whole.name;
  part.topology.gpus = whole.gpus;
  part.topology.sites = whole.sites;
  part.topology.fairness = whole.fairness;
  part.topology.transport = whole.transport;
  for (int device = 0; device < whole.size(); ++device) {
    if (!is_available[at(device)]) continue;
    part.in_part[at(device)] = part.topology.size();
    part.whole.push_back(device);
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

Plan renumber_devices(Plan plan, const std::vector<int>& numbers) {
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages)
      for (int& device : stage.devices) device = numbers[at(device)];
  return plan;
}

/// The job under which the plan runs, with nothing left to the planner except the shape and, unless the job
/// of the run fixes them, the flushes.
Job job_of(const Problem& problem, const Plan& plan) {
  Job job = problem.job;
  job.automatic = {};
  job.parallelism.pipeline.reset();
  job.parallelism.data.reset();
  job.parallelism.tensor = plan.tensor;
  job.execution = plan.execution;
  job.execution.flush = problem.job.execution.flush;
  return job;
}

}  // namespace

sim::Replanner make_replanner(const Problem& problem) {
  return [&problem](const Plan& running, const std::vector<bool>& is_available) -> std::optional<Plan> {
    SubTopology part = sub_topology(problem.topology, is_available);
    if (part.whole.empty()) return std::nullopt;
    const Problem remaining{std::move(part.topology), job_of(problem, running), problem.constants,
                            problem.roofline};
    search::IterationSearchOptions options;
    options.common.evaluations = evaluations;
    options.finalists = 1;
    options.warm = search::WarmStart{renumber_devices(running, part.in_part), remaining.job, horizon_s};
    try {
      const search::IterationSearchResult found = search::search_iteration(remaining, options);
      if (found.finalists.empty() || found.finalists.front().deficit_bytes > 0) return std::nullopt;
      return renumber_devices(found.finalists.front().plan, part.whole);
    } catch (const search::NoSuchShape&) {
      return std::nullopt;
    }
  };
}

}  // namespace dtfm::api
