#include "simulator/run/failure_policy.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "core/base/kind_table.hpp"
#include "simulator/report/stage_memory.hpp"

namespace dtfm::sim {
namespace {

std::vector<bool> complete_pipelines(const Plan& plan, const std::vector<bool>& available) {
  std::vector<bool> whole;
  for (const Pipeline& pipeline : plan.pipelines)
    whole.push_back(std::all_of(pipeline.stages.begin(), pipeline.stages.end(), [&](const Stage& stage) {
      return std::all_of(stage.devices.begin(), stage.devices.end(),
                         [&](int device) { return available[at(device)]; });
    }));
  return whole;
}

Decision pause_broken_pipelines(const ClusterState& state) {
  return {state.plan, complete_pipelines(state.plan, state.available)};
}

Decision wait_for_all(const ClusterState& state) {
  Decision decision = pause_broken_pipelines(state);
  const bool all = std::all_of(decision.running.begin(), decision.running.end(), [](bool it) { return it; });
  decision.running.assign(decision.running.size(), all);
  return decision;
}

/// Replaces a device in all its stages.
void replace(Plan& plan, int device, int spare) {
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages)
      std::replace(stage.devices.begin(), stage.devices.end(), device, spare);
}

/// Which spares have enough memory for the stages of which devices.
class SpareMemory {
 public:
  explicit SpareMemory(const ClusterState& state) : problem_(state.problem) {
    if (problem_) required_ = required_memory(*problem_, state.plan);
  }

  /// As much memory as that of the device is enough, because the plan may exceed it.
  bool is_enough(int spare, int device) const {
    return !problem_ || memory_of(spare) >= std::min(memory_of(device), required_[at(device)]);
  }

 private:
  double memory_of(int device) const {
    const Topology& topology = problem_->topology;
    const int gpu = topology.devices[at(device)].gpu;
    return gpu < 0 ? infinity : topology.gpus[at(gpu)].memory.value();
  }

  const Problem* problem_;
  std::vector<double> required_;  // bytes, by device
};

Decision use_spares(const ClusterState& state) {
  const std::vector<int> assigned_devices = pipeline_major(state.plan);
  const auto is_available = [&](int device) { return state.available[at(device)]; };
  if (std::all_of(assigned_devices.begin(), assigned_devices.end(), is_available))
    return pause_broken_pipelines(state);
  Plan plan = state.plan;
  const SpareMemory memory(state);
  std::set<int> taken(assigned_devices.begin(), assigned_devices.end());
  const auto suits = [&](int spare, int device) {
    return is_available(spare) && taken.count(spare) == 0 && memory.is_enough(spare, device);
  };
  // Devices that few spares can replace come first, so that others do not take these spares; otherwise
  // pipelines are completed one after the other.
  std::vector<std::pair<std::ptrdiff_t, int>> failed;  // number of suitable spares, device
  for (const int device : assigned_devices)
    if (!is_available(device))
      failed.emplace_back(std::count_if(state.spares.begin(), state.spares.end(),
                                        [&](int spare) { return suits(spare, device); }),
                          device);
  std::stable_sort(failed.begin(), failed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [count, device] : failed) {
    if (taken.count(device) == 0) continue;  // it has several stages, and was replaced in all of them
    const auto spare = std::find_if(state.spares.begin(), state.spares.end(),
                                    [&, failed_device = device](int it) { return suits(it, failed_device); });
    if (spare == state.spares.end()) continue;
    replace(plan, device, *spare);
    taken.erase(device);
    taken.insert(*spare);
  }
  return pause_broken_pipelines({plan, state.available, state.spares});
}

/// Starts from the initial plan, so that a device that has rejoined gets its own slot back.
Decision use_redundant_successors(const ClusterState& state) {
  const Plan& initial_plan = state.initial_plan ? *state.initial_plan : state.plan;
  Plan plan = initial_plan;
  for (std::size_t i = 0; i < plan.pipelines.size(); ++i) {
    const std::vector<Stage>& stages = initial_plan.pipelines[i].stages;
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      const Stage& holder = stages[(stage + 1) % stages.size()];
      if (holder.devices.size() != stages[stage].devices.size()) continue;
      for (std::size_t rank = 0; rank < holder.devices.size(); ++rank)
        if (!state.available[at(stages[stage].devices[rank])] && state.available[at(holder.devices[rank])])
          plan.pipelines[i].stages[stage].devices[rank] = holder.devices[rank];
    }
  }
  Decision decision{std::move(plan), {}};
  decision.running = complete_pipelines(decision.plan, state.available);
  for (std::size_t i = 0; i < decision.running.size(); ++i)
    if (!decision.running[i]) decision.plan.pipelines[i] = initial_plan.pipelines[i];
  return decision;
}

constexpr auto policies = std::to_array<FailurePolicyTraits>({
    {.kind = FailurePolicy::restart_without_pipeline,
     .name = "restart-without-pipeline",
     .decide = pause_broken_pipelines},
    {.kind = FailurePolicy::wait, .name = "wait", .decide = wait_for_all},
    {.kind = FailurePolicy::spare, .name = "spare", .decide = use_spares},
    {.kind = FailurePolicy::restart,
     .name = "restart",
     .decide = pause_broken_pipelines,
     .loads_checkpoint = true},
    {.kind = FailurePolicy::drop_pipeline,
     .name = "drop-pipeline",
     .decide = pause_broken_pipelines,
     .resumes_iteration = true},
    {.kind = FailurePolicy::redundant,
     .name = "redundant",
     .decide = use_redundant_successors,
     .keeps_copies = true},
    {.kind = FailurePolicy::replan, .name = "replan", .decide = pause_broken_pipelines, .asks_planner = true},
});
static_assert(has_row_for_each(policies, FailurePolicy::replan));

/// The number of micro-batches that are distributed as a unit.
int redistribution_unit(const Plan& plan, const std::vector<bool>& running, int total) {
  if (!traits(plan.execution.schedule).in_rounds) return 1;
  int size = 1;
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (!running[i]) continue;
    std::set<int> devices;
    for (const Stage& stage : plan.pipelines[i].stages) devices.insert(stage.devices.front());
    size = std::lcm(size, static_cast<int>(devices.size()));
  }
  return total % size == 0 ? size : 1;
}

/// Splits `count` in proportion to `weights` (evenly if all are 0) by largest remainder; ties go to earlier
/// entries.
std::vector<int> split_proportionally(long long count, std::vector<long long> weights) {
  long long sum = std::accumulate(weights.begin(), weights.end(), 0LL);
  if (sum == 0) weights.assign(weights.size(), 1), sum = static_cast<long long>(weights.size());
  std::vector<int> shares;
  std::vector<std::pair<long long, std::size_t>> remainders;
  long long left = count;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    shares.push_back(static_cast<int>(count * weights[i] / sum));
    left -= shares.back();
    remainders.emplace_back(-(count * weights[i] % sum), i);
  }
  std::sort(remainders.begin(), remainders.end());
  for (std::size_t k = 0; k < static_cast<std::size_t>(left); ++k) ++shares[remainders[k].second];
  return shares;
}

}  // namespace

std::vector<bool> exclude_slow_pipelines(const Plan& plan, const std::vector<bool>& running,
                                         const std::vector<double>& speeds, double share) {
  std::vector<double> all_speeds, min_speeds(running.size(), std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < running.size(); ++i)
    for (const Stage& stage : plan.pipelines[i].stages)
      for (const int device : stage.devices) {
        if (running[i]) all_speeds.push_back(speeds[at(device)]);
        min_speeds[i] = std::min(min_speeds[i], speeds[at(device)]);
      }
  if (all_speeds.empty()) return running;
  std::sort(all_speeds.begin(), all_speeds.end());
  const double median = all_speeds[all_speeds.size() / 2];
  std::vector<bool> result = running;
  for (std::size_t i = 0; i < running.size(); ++i) result[i] = running[i] && min_speeds[i] >= share * median;
  return std::find(result.begin(), result.end(), true) == result.end() ? running : result;
}

std::span<const FailurePolicyTraits> failure_policy_table() {
  return policies;
}

const FailurePolicyTraits& traits(FailurePolicy policy) {
  return row_of(policies, policy);
}

std::string_view name_of(FailurePolicy policy) {
  return traits(policy).name;
}

std::vector<bool> devices_of(const Plan& plan, const std::vector<bool>& pipelines, std::size_t count) {
  std::vector<bool> devices(count);
  for (std::size_t i = 0; i < pipelines.size(); ++i)
    for (const Stage& stage : plan.pipelines[i].stages)
      for (const int device : stage.devices)
        if (pipelines[i]) devices[at(device)] = true;
  return devices;
}

Plan running_plan(const Plan& plan, const std::vector<bool>& running) {
  Plan result = plan;
  result.pipelines.clear();
  long long total = 0, shares = 0;
  for (std::size_t i = 0; i < running.size(); ++i) {
    total += plan.pipelines[i].micro_batches;
    if (!running[i]) continue;
    shares += plan.pipelines[i].micro_batches;
    result.pipelines.push_back(plan.pipelines[i]);
  }
  if (total == shares) return result;
  const int chunk_size = redistribution_unit(plan, running, static_cast<int>(total));
  const long long chunk_count = total / chunk_size;
  std::vector<long long> weights;
  for (const Pipeline& pipeline : result.pipelines) weights.push_back(pipeline.micro_batches);
  const std::vector<int> counts = split_proportionally(chunk_count, std::move(weights));
  for (std::size_t i = 0; i < counts.size(); ++i) result.pipelines[i].micro_batches = counts[i] * chunk_size;
  return result;
}

Plan redistribute_micro_batches(const Plan& plan, const std::vector<bool>& running) {
  Plan result = plan;
  int lost = 0;
  std::vector<long long> weights;
  for (std::size_t i = 0; i < running.size(); ++i) {
    weights.push_back(running[i] ? plan.pipelines[i].micro_batches : 0);
    if (!running[i]) lost += std::exchange(result.pipelines[i].micro_batches, 0);
  }
  if (std::accumulate(weights.begin(), weights.end(), 0LL) == 0)
    weights.assign(running.begin(), running.end());
  const int chunk_size = redistribution_unit(plan, running, lost);
  const std::vector<int> more = split_proportionally(lost / chunk_size, std::move(weights));
  for (std::size_t i = 0; i < more.size(); ++i) result.pipelines[i].micro_batches += more[i] * chunk_size;
  return result;
}

}  // namespace dtfm::sim
