#include "planner/cost/explanation/what_if.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/parallel.hpp"
#include "core/plan/shards.hpp"
#include "planner/cost/explanation/network_upgrades.hpp"
#include "planner/cost/iteration_time/micro_batch_split.hpp"

namespace dtfm::cost {
namespace {

constexpr std::size_t max_links = 32;

int batch_step(const PlannedProblem& planned) {
  return traits(planned.problem.job.execution.schedule).in_rounds ? depth(planned.plan) : 1;
}

/// Splits `total` micro-batches over the pipelines by their paces, measured with an even split.
void assign_micro_batches(PlannedProblem& planned, int total,
                          const std::shared_ptr<const NetworkCost>& network) {
  auto& pipelines = planned.plan.pipelines;
  const int step = batch_step(planned), count = static_cast<int>(pipelines.size());
  if (total / step < count)
    throw Error("", fmt::format("{} micro-batches are too few for {} pipelines", total, count));
  for (int i = 0; i < count; ++i) {
    const auto [begin, end] = even_split(total / step, count, i);
    pipelines[at(i)].micro_batches = (end - begin) * step;
  }
  const IterationModel model(planned.problem, stage_sizes(planned.plan), network);
  const IterationEstimate estimate = estimate_iteration(model, planned.plan);
  std::vector<PipelinePace> paces;
  for (std::size_t i = 0; i < pipelines.size(); ++i) {
    const double steady_s = estimate.steady_s[i];
    paces.push_back(
        {std::max(0.0, estimate.pipeline_s[i] - pipelines[i].micro_batches * steady_s), steady_s});
  }
  const std::vector<int> shares = balanced_micro_batches(paces, step, total);
  for (std::size_t i = 0; i < pipelines.size(); ++i) pipelines[i].micro_batches = shares[i];
}

void remove_pipeline(PlannedProblem& planned, int pipeline,
                     const std::shared_ptr<const NetworkCost>& network) {
  auto& pipelines = planned.plan.pipelines;
  if (pipelines.size() < 2) throw Error("", "the plan has only one pipeline");
  const int total = static_cast<int>(total_micro_batches(planned.plan));
  pipelines.erase(pipelines.begin() + pipeline);
  assign_micro_batches(planned, total, network);
}

/// Adds a pipeline with the layers of pipeline `template_pipeline`.
void add_pipeline(PlannedProblem& planned, int template_pipeline, const std::vector<int>& devices,
                  const std::shared_ptr<const NetworkCost>& network) {
  Pipeline added = planned.plan.pipelines[at(template_pipeline)];
  std::size_t next = 0;
  for (Stage& stage : added.stages)
    for (int& device : stage.devices) device = devices[next++];
  const int total = static_cast<int>(total_micro_batches(planned.plan));
  planned.plan.pipelines.push_back(std::move(added));
  assign_micro_batches(planned, total, network);
}

/// Merges pairs of micro-batches of each pipeline. Among pipelines with an odd number, every second one gets
/// one more.
void double_micro_batch(PlannedProblem& planned) {
  const int step = batch_step(planned);
  if (total_micro_batches(planned.plan) % (2 * step) != 0)
    throw Error("",
                fmt::format("{} micro-batches cannot be merged in pairs{}", total_micro_batches(planned.plan),
                            step > 1 ? fmt::format(", in multiples of {}", step) : ""));
  bool odd_before = false;
  for (Pipeline& pipeline : planned.plan.pipelines) {
    const int shares = pipeline.micro_batches / step;
    const bool odd = shares % 2 != 0;
    pipeline.micro_batches = (shares / 2 + (odd && odd_before ? 1 : 0)) * step;
    if (odd) odd_before = !odd_before;
  }
  for (ExecutionConfig* execution : {&planned.problem.job.execution, &planned.plan.execution}) {
    execution->micro_batch *= 2;
    if (auto& flush = execution->flush) flush = std::max(1, *flush / 2);
  }
}

void estimate(WhatIf& what, const PlannedProblem& planned, const std::shared_ptr<const NetworkCost>& network,
              double now_s) {
  try {
    const PlannedProblem other = apply_change(planned, what, network);
    const bool same_network = what.change != Change::link_doubled && what.change != Change::access_doubled;
    const IterationModel model(
        other.problem, stage_sizes(other.plan),
        same_network ? network
                     : std::make_shared<const NetworkCost>(other.problem.topology, other.problem.constants));
    const IterationEstimate estimate = estimate_iteration(model, other.plan);
    what.iteration_s = estimate.iteration_s;
    what.gain = 1 - what.iteration_s / now_s;
    what.deficit_bytes = estimate.deficit_bytes;
  } catch (const Error& error) {
    what.impossible = error.what();
  }
}

/// Groups of unused devices on one host, each as many as the plan's largest stage has, with known layer
/// times.
std::vector<std::vector<int>> unused_tensor_groups(const IterationModel& model, const Plan& plan) {
  const Topology& topology = model.problem.topology;
  std::vector<bool> used(topology.devices.size());
  for (const int device : pipeline_major(plan)) used[at(device)] = true;
  std::map<int, std::vector<int>> incomplete_groups;  // by host: the group being filled
  std::vector<std::vector<int>> tensor_groups;
  for (int device = 0; device < topology.size(); ++device) {
    if (used[at(device)] || !model.stages.unknown(device).empty()) continue;
    std::vector<int>& tensor_group = incomplete_groups[topology.devices[at(device)].host];
    tensor_group.push_back(device);
    if (static_cast<int>(tensor_group.size()) < stage_sizes(plan).back()) continue;
    tensor_groups.push_back(std::move(tensor_group));
    tensor_group.clear();
  }
  return tensor_groups;
}

/// Devices for a copy of a pipeline: for each stage the fastest unused group at the same site, or anywhere if
/// that site has none. Empty if there are too few groups.
std::vector<int> devices_like(const IterationModel& model, const Pipeline& pipeline,
                              std::vector<std::vector<int>> tensor_groups) {
  std::vector<int> devices;
  if (tensor_groups.size() < pipeline.stages.size()) return devices;
  const Topology& topology = model.problem.topology;
  for (const Stage& stage : pipeline.stages) {
    const int site = topology.devices[at(stage.devices.front())].site;
    const auto rank = [&](const std::vector<int>& tensor_group) {
      const bool elsewhere = topology.devices[at(tensor_group.front())].site != site;
      const ComputeTime time = model.stages.compute(model.stages.kind_of(tensor_group.front()), stage.layers);
      return std::pair(elsewhere, time.forward_s + time.backward_s);
    };
    const auto best = std::min_element(tensor_groups.begin(), tensor_groups.end(),
                                       [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
    devices.insert(devices.end(), best->begin(), best->begin() + std::ssize(stage.devices));
    tensor_groups.erase(best);
  }
  return devices;
}

std::vector<int> devices_in(const Pipeline& pipeline) {
  std::vector<int> devices;
  for (const Stage& stage : pipeline.stages)
    devices.insert(devices.end(), stage.devices.begin(), stage.devices.end());
  return devices;
}

bool is_better(const WhatIf& a, const WhatIf& b) {
  const auto rank = [](const WhatIf& it) {
    return !it.impossible.empty() ? 2 : it.deficit_bytes > 0 ? 1 : 0;
  };
  if (rank(a) != rank(b)) return rank(a) < rank(b);
  return a.gain > b.gain;
}

std::vector<WhatIf> candidates(const IterationModel& model, const Plan& plan) {
  std::vector<WhatIf> all;
  const auto add = [&](Change change, int first = -1, int second = -1, std::vector<int> devices = {}) {
    WhatIf what;
    what.change = change;
    what.first = first;
    what.second = second;
    what.devices = std::move(devices);
    all.push_back(std::move(what));
  };
  for (const auto& [a, b] : used_links(model, plan)) add(Change::link_doubled, a, b);
  for (const int site : limited_sites(model.problem.topology, pipeline_major(plan)))
    add(Change::access_doubled, site);
  const auto tensor_groups = unused_tensor_groups(model, plan);
  for (int i = 0; i < static_cast<int>(plan.pipelines.size()); ++i) {
    const Pipeline& pipeline = plan.pipelines[at(i)];
    add(Change::pipeline_removed, i, -1, devices_in(pipeline));
    add(Change::pipeline_added, i, -1, devices_like(model, pipeline, tensor_groups));
  }
  for (const Change change :
       {Change::activations_halved, Change::activations_quartered, Change::gradients_halved,
        Change::gradients_quartered, Change::micro_batch_doubled})
    add(change);
  return all;
}

}  // namespace

std::vector<std::pair<int, int>> used_links(const IterationModel& model, const Plan& plan) {
  const auto& devices = model.problem.topology->devices;
  std::map<std::pair<int, int>, double> seconds;
  const auto add = [&](int from, int to, double bytes, double messages) {
    if (devices[at(from)].host == devices[at(to)].host) return;
    const auto sites = std::minmax(devices[at(from)].site, devices[at(to)].site);
    seconds[{sites.first, sites.second}] += messages * model.network.message(from, to).total_s(bytes);
  };
  for (const Pipeline& pipeline : plan.pipelines)
    for (std::size_t stage = 0; stage + 1 < pipeline.stages.size(); ++stage) {
      const std::vector<int>&here = pipeline.stages[stage].devices,
            &next = pipeline.stages[stage + 1].devices;
      const int parts = parts_between(here, next);
      for (int part = 0; part < parts; ++part) {
        const int from = device_of_part(here, part, parts), to = device_of_part(next, part, parts);
        add(from, to, model.boundary_bytes(from, to, parts, pipeline.stages[stage].layers.second),
            pipeline.micro_batches);
      }
    }
  const auto groups = stage_groups(plan);
  const Problem& problem = model.problem;
  for (const std::vector<int>& group : groups) {
    const bool compressed = is_compressed(problem.topology, problem.job.execution.compression, group);
    const double bytes = model.stages.gradient_bytes({0, model.stages.layers()}, true, compressed) /
                         static_cast<double>(groups.size());
    for (std::size_t a = 0; a < group.size(); ++a)
      for (std::size_t b = a + 1; b < group.size(); ++b)
        add(group[a], group[b], bytes / static_cast<double>(group.size()), 2);
  }
  std::vector<std::pair<double, std::pair<int, int>>> order;
  for (const auto& [sites, sum] : seconds) order.emplace_back(-sum, sites);
  std::stable_sort(order.begin(), order.end());
  std::vector<std::pair<int, int>> links;
  for (std::size_t i = 0; i < order.size() && i < max_links; ++i) links.push_back(order[i].second);
  return links;
}

std::string_view name_of(Change change) {
  constexpr std::array<std::string_view, 9> names = {
      "link_doubled",     "access_doubled",      "pipeline_removed",
      "pipeline_added",   "activations_halved",  "activations_quartered",
      "gradients_halved", "gradients_quartered", "micro_batch_doubled"};
  return names[static_cast<std::size_t>(change)];
}

PlannedProblem apply_change(const PlannedProblem& planned, const WhatIf& what,
                            const std::shared_ptr<const NetworkCost>& network) {
  PlannedProblem result = planned;
  Compression& compression = result.problem.job.execution.compression;
  switch (what.change) {
    case Change::link_doubled:
      scale_link(result.problem.topology.edit(), what.first, what.second, 2);
      break;
    case Change::access_doubled:
      double_site_access(result.problem.topology.edit(), what.first);
      break;
    case Change::pipeline_removed:
      remove_pipeline(result, what.first, network);
      break;
    case Change::pipeline_added:
      if (what.devices.empty()) throw Error("", "too few unused devices for another pipeline");
      add_pipeline(result, what.first, what.devices, network);
      break;
    case Change::activations_halved:
    case Change::activations_quartered:
      compression.activations /= what.change == Change::activations_halved ? 2 : 4;
      result.plan.execution.compression = compression;
      break;
    case Change::gradients_halved:
    case Change::gradients_quartered:
      compression.gradients /= what.change == Change::gradients_halved ? 2 : 4;
      result.plan.execution.compression = compression;
      break;
    case Change::micro_batch_doubled:
      double_micro_batch(result);
      break;
  }
  return result;
}

std::vector<WhatIf> what_ifs(const PlannedProblem& planned, const std::shared_ptr<const NetworkCost>& network,
                             const Work& work) {
  const IterationModel model(planned.problem, stage_sizes(planned.plan), network);
  const double now_s = estimate_iteration(model, planned.plan).iteration_s;
  const std::vector<WhatIf> inputs = candidates(model, planned.plan);
  std::vector<WhatIf> all = parallel_map(static_cast<int>(inputs.size()), work.threads, [&](int i) {
    throw_if_stopped(work.stop);
    WhatIf what = inputs[at(i)];
    estimate(what, planned, network, now_s);
    return what;
  });
  std::stable_sort(all.begin(), all.end(), is_better);
  std::vector<WhatIf> result;
  for (WhatIf& what : all) {
    const bool keep_best_only =
        what.change == Change::pipeline_removed || what.change == Change::pipeline_added;
    const auto same = [&](const WhatIf& other) { return other.change == what.change; };
    if (!keep_best_only || std::none_of(result.begin(), result.end(), same))
      result.push_back(std::move(what));
  }
  return result;
}

}  // namespace dtfm::cost
