#include "planner/search/iteration_time/least_memory.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "core/plan/settings.hpp"
#include "core/plan/shards.hpp"
#include "core/plan/target.hpp"
#include "planner/cost/iteration_time/fewest_recomputed.hpp"

namespace dtfm::search {

namespace {

/// The job with a schedule whose pipelines may flush after every micro-batch, if another one was chosen. A
/// device then holds one micro-batch, but more buffers.
std::optional<Job> with_flushes(Job job, const Job& undecided) {
  const Schedule now = job.execution.schedule;
  if (!undecided.automatic[Setting::schedule] || !may_flush(job) || requires_single_devices(job))
    return std::nullopt;
  for (const ScheduleTraits& it : schedule_table())
    if (it.forwards_first && it.kind != now && is_choice(undecided, Setting::schedule, it.name)) {
      job.execution.schedule = it.kind;
      if (can_shard(job.execution) && can_run(job.execution.messaging, it.kind)) return job;
    }
  return std::nullopt;
}

}  // namespace

LeastMemory least_memory(const Decisions& decisions, const ShapeLimits& limits) {
  const Problem& problem = decisions.problem();
  const cost::MemorySupply supply(problem.topology, decisions.usable(),
                                  problem.constants.process_memory_bytes);
  const cost::PlanLimits plan_limits{limits.stages, limits.replicas};
  LeastMemory result;
  std::vector<std::pair<double, Job>> ranked;
  bool all_are_short = true;  // or have too few devices
  for (const std::vector<Job>& group : decisions.least_memory_jobs()) {
    const cost::MemoryNeed need = memory_need(group, supply, plan_limits);
    all_are_short = all_are_short && (need.is_short() || std::isinf(need.ratio()));
    if (need.is_short() && (!result.shortage || need.ratio() < result.shortage->ratio()))
      result.shortage = need;
    for (const Job& job : group) ranked.emplace_back(memory_need({job}, supply, plan_limits).ratio(), job);
  }
  if (!all_are_short) result.shortage.reset();
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto strength = [](const Job& job) {
    const Recomputation it = job.execution.recomputation;
    return traits(it).offloads ? Recomputation::none : it;
  };
  Recomputation strongest = Recomputation::none;
  for (const auto& [ratio, job] : ranked) strongest = std::max(strongest, strength(job));
  std::set<std::tuple<int, int, int, OptimizerSharding>> seen;
  for (auto& [ratio, job] : ranked) {
    const ExecutionConfig& it = job.execution;
    const bool is_first =
        seen.emplace(job.parallelism.tensor, it.context, it.expert, it.optimizer_sharding).second;
    if (!is_first && strength(job) != strongest) continue;
    result.jobs.push_back(job);
    if (auto flushed = with_flushes(std::move(job), decisions.undecided_job()))
      result.jobs.push_back(*std::move(flushed));
  }
  return result;
}

int min_fitting_devices(const Problem& problem, const ShapeLimits& limits) {
  Decisions decisions(problem);
  decisions.first();
  const auto groups = decisions.least_memory_jobs();
  Topology topology = problem.topology;
  for (Device& device : topology.devices) device.host = 0;
  std::vector<int> devices = decisions.usable();
  const auto memory = [&](int device) {
    const int gpu = topology.devices[at(device)].gpu;
    return gpu < 0 ? infinity : topology.gpus[at(gpu)].memory.value();
  };
  std::stable_sort(devices.begin(), devices.end(), [&](int a, int b) { return memory(a) > memory(b); });
  const auto is_excluded = [&](int count) {
    const cost::MemorySupply supply(topology, {devices.begin(), devices.begin() + count},
                                    problem.constants.process_memory_bytes);
    return std::all_of(groups.begin(), groups.end(), [&](const std::vector<Job>& group) {
      const cost::MemoryNeed need = memory_need(group, supply, {limits.stages, limits.replicas});
      return need.is_short() || std::isinf(need.ratio());
    });
  };
  const int all = static_cast<int>(devices.size());
  int low = 0, high = all + 1;  // more devices never need more
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (is_excluded(middle) ? low : high) = middle;
  }
  return high;
}

/// More replicas never need less. On as many devices as these need, all of them with room for everything, no
/// layer alone needs a larger share than the sum.
double min_fitting_bytes(const Problem& problem, const ShapeLimits& limits) {
  constexpr double room = 1e18;
  Decisions decisions(problem);
  decisions.first();
  double least = infinity;
  for (const std::vector<Job>& group : decisions.least_memory_jobs())
    for (const Job& job : group) {
      const int replicas = limits.replicas.value_or(1);
      Gpu gpu;
      gpu.memory = Bytes(room);
      Device device;
      device.gpu = 0;
      Topology topology;
      topology.gpus = {gpu};
      topology.devices.assign(at(devices_per_stage(job) * replicas), device);
      std::vector<int> devices(topology.devices.size());
      std::iota(devices.begin(), devices.end(), 0);
      const cost::MemorySupply supply(topology, devices, 0);
      least = std::min(least, memory_need({job}, supply, {limits.stages, replicas}).needed_bytes);
    }
  return least;
}

namespace {

using Groups = std::vector<std::vector<int>>;

/// The memory that these devices offer to one stage. Each holds an equal part, so the smallest one counts.
double memory_of_stage(const Topology& topology, const std::vector<int>& group) {
  return static_cast<double>(group.size()) * cost::least_memory(topology, group);
}

/// How many groups have at least as much memory as each of them.
std::set<int> groups_by_memory(const Topology& topology, const Groups& groups) {
  std::map<double, int, std::greater<>> counts;
  for (const std::vector<int>& group : groups) ++counts[memory_of_stage(topology, group)];
  std::set<int> sums;
  int sum = 0;
  for (const auto& [memory, count] : counts) sums.insert(sum += count);
  return sums;
}

/// Chosen by hand: pipelines that are deeper have powers of two stages only, or the most.
constexpr int max_other_stages = 32;

std::vector<Shape> least_memory_shapes(const DecidedJob& job, const ShapeLimits& limits, StageCounts counts) {
  const std::set<int> tiers = groups_by_memory(job.problem.topology, job.tensor_groups);
  std::vector<Shape> full = full_shapes(job, limits), shapes;
  std::reverse(full.begin(), full.end());
  for (const Shape& shape : full) {
    Shape fewest = shape;
    for (fewest.replicas = 1; !is_possible(job, fewest, limits);) ++fewest.replicas;
    const bool is_one_of_few = shape.stages == full.front().stages ||
                               std::has_single_bit(static_cast<unsigned>(shape.stages)) ||
                               tiers.contains(shape.stages * fewest.replicas);
    if (is_one_of_few != (counts == StageCounts::few)) continue;
    if (!is_one_of_few && shape.stages > max_other_stages) continue;
    shapes.push_back(fewest);
    if (job.model.sharding.optimizer && shape != fewest) shapes.push_back(shape);
  }
  return shapes;
}

/// The replicas of a stage have groups that follow one another.
Plan lay_out(const DecidedJob& job, const Shape& shape, const Groups& groups) {
  Plan plan{1, job.problem.job.execution, {}};
  for (int replica = 0; replica < shape.replicas; ++replica) {
    Pipeline& pipeline = plan.pipelines.emplace_back();
    for (int stage = 0; stage < shape.stages; ++stage)
      pipeline.stages.push_back({even_split(job.model.stages.layers(), shape.stages, stage),
                                 groups[at(stage * shape.replicas + replica)]});
  }
  plan.tensor = tensor_degrees(plan).back();
  assign_micro_batches_evenly(job, plan);
  return plan;
}

}  // namespace

std::vector<Plan> least_memory_plans(const DecidedJob& job, const ShapeLimits& limits, StageCounts counts) {
  const Topology& topology = job.problem.topology;
  const auto has_more = [&](const auto& a, const auto& b) {
    return memory_of_stage(topology, a) > memory_of_stage(topology, b);
  };
  Groups descending = job.tensor_groups;
  std::stable_sort(descending.begin(), descending.end(), has_more);
  std::vector<Plan> plans;
  for (const Shape& shape : least_memory_shapes(job, limits, counts)) {
    const auto count = shape.stages * shape.replicas;
    const Groups most(descending.begin(), descending.begin() + count);
    const std::set<std::vector<int>> is_used(most.begin(), most.end());
    Groups near = job.tensor_groups;
    std::erase_if(near, [&](const auto& it) { return !is_used.contains(it); });
    plans.push_back(lay_out(job, shape, near));
    if (!has_more(most.front(), most.back())) continue;
    plans.push_back(lay_out(job, shape, most));
    plans.push_back(lay_out(job, shape, {most.rbegin(), most.rend()}));
  }
  return plans;
}

}  // namespace dtfm::search
