// Megatron-LM, GPipe, local SGD: stages of equal length, every number of replicas.
#include <algorithm>
#include <numeric>
#include <variant>

#include <fmt/format.h>

#include "planner/api/schemes/layout.hpp"
#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/rng.hpp"
#include "core/schedule/schedule.hpp"

namespace dtfm::api {
namespace {

struct Degrees {
  int tensor = 1, pipeline = 1, data = 1;
};

/// Whether each group of `tensor` consecutive devices is on one host.
bool fits_in_hosts(const Topology& topology, int tensor) {
  if (topology.size() % tensor != 0) return false;
  for (int first = 0; first < topology.size(); first += tensor)
    if (topology.devices[at(first)].host != topology.devices[at(first + tensor - 1)].host) return false;
  return true;
}

bool divides_heads(const Job& job, int tensor) {
  const auto* transformer = std::get_if<Transformer>(&job.model);
  return tensor == 1 || (transformer != nullptr && transformer->heads % tensor == 0);
}

std::vector<int> tensor_degrees_of(const Problem& problem) {
  std::vector<int> degrees;
  for (int tensor = 1; tensor <= problem.topology->size(); ++tensor)
    if (fits_in_hosts(problem.topology, tensor) && divides_heads(problem.job, tensor))
      degrees.push_back(tensor);
  return degrees;
}

/// Numbers of replicas of `devices_per_replica` devices that have equally many micro-batches each. Fewer than
/// the maximum may be faster on a slow network.
std::vector<int> replica_counts(const Problem& problem, int devices_per_replica) {
  const int micro_batches = micro_batch_count(problem.job);
  std::vector<int> counts;
  for (int data = std::min(problem.topology->size() / devices_per_replica, micro_batches); data > 0; --data)
    if (micro_batches % data == 0) counts.push_back(data);
  return counts;
}

/// Stage p of replica d has the devices of ranks T (d + D p) … T (d + D p) + T − 1, so that data-parallel
/// neighbours have consecutive ranks.
Plan make_plan(const Problem& problem, const std::vector<int>& order, const Degrees& degrees) {
  const auto& [tensor, stages, replicas] = degrees;
  Plan plan;
  plan.tensor = tensor;
  for (int d = 0; d < replicas; ++d) {
    Pipeline pipeline{micro_batch_count(problem.job) / replicas, {}};
    for (int p = 0; p < stages; ++p) {
      const auto first = order.begin() + tensor * (d + replicas * p);
      pipeline.stages.push_back(
          {even_split(layer_count(problem.job.model), stages, p), {first, first + tensor}});
    }
    plan.pipelines.push_back(std::move(pipeline));
  }
  return plan;
}

std::vector<int> file_order(const Topology& topology) {
  std::vector<int> order(at(topology.size()));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/// Shuffles groups of `group_size` consecutive devices.
std::vector<int> random_order(const Topology& topology, int group_size, std::uint64_t seed) {
  std::vector<int> runs(at(topology.size() / group_size));
  std::iota(runs.begin(), runs.end(), 0);
  Rng rng = Rng::for_task(seed, static_cast<std::uint64_t>(group_size));
  rng.shuffle(std::span<int>(runs));
  std::vector<int> order;
  for (const int run : runs)
    for (int i = 0; i < group_size; ++i) order.push_back(run * group_size + i);
  return order;
}

template <class Order>
std::vector<Layout> megatron(const Problem& problem, const Order& order_of) {
  std::vector<Layout> layouts;
  const int layers = layer_count(problem.job.model);
  for (const int tensor : tensor_degrees_of(problem)) {
    const std::vector<int> order = order_of(tensor);
    for (int stages = 1; stages <= layers; ++stages) {
      if (layers % stages != 0) continue;
      for (const int replicas : replica_counts(problem, tensor * stages)) {
        Layout layout{problem.job, make_plan(problem, order, {tensor, stages, replicas})};
        set_decisions(layout, tensor, Schedule::one_f_one_b_blocking);
        layouts.push_back(std::move(layout));
      }
    }
  }
  if (layouts.empty()) throw NoLayout("no degrees divide layers, micro-batches and devices");
  return layouts;
}

/// Replica d has the devices P d … P d + P − 1 in file order.
std::vector<Layout> contiguous_replicas(const Problem& problem, int sync_every) {
  std::vector<Layout> layouts;
  const int layers = layer_count(problem.job.model);
  for (int stages = 1; stages <= layers; ++stages) {
    if (layers % stages != 0) continue;
    for (const int replicas : replica_counts(problem, stages)) {
      std::vector<int> order(at(stages * replicas));  // as `make_plan` expects it
      for (int d = 0; d < replicas; ++d)
        for (int p = 0; p < stages; ++p) order[at(d + replicas * p)] = stages * d + p;
      Layout layout{problem.job, make_plan(problem, order, {1, stages, replicas}), sync_every};
      // Without a barrier, replicas would drift apart while they do not synchronize.
      layout.job.execution.iteration_barrier = layout.plan.execution.iteration_barrier = true;
      set_decisions(layout, 1, Schedule::one_f_one_b);
      layouts.push_back(std::move(layout));
    }
  }
  if (layouts.empty()) throw NoLayout("no degrees divide layers, micro-batches and devices");
  return layouts;
}

/// Layouts without decisions, of single devices in this order: stages as equal as possible, every number of
/// replicas.
std::vector<Layout> layouts_of_every_depth(const Problem& problem, const std::vector<int>& order) {
  std::vector<Layout> layouts;
  const int max_stages = std::min(layer_count(problem.job.model), problem.topology->size());
  for (int stages = 1; stages <= max_stages; ++stages)
    for (const int replicas : replica_counts(problem, stages))
      layouts.push_back({problem.job, make_plan(problem, order, {1, stages, replicas})});
  if (layouts.empty()) throw NoLayout("there is no micro-batch");
  return layouts;
}

/// Number of micro-batches that all stages can hold at the same time; unknown memory is no limit.
int plan_in_flight_limit(const Problem& problem, const Plan& plan) {
  const sim::LoadModel model(problem, plan);
  double limit = micro_batch_count(problem.job);
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages) {
      const auto held = max_in_flight(problem.topology, stage.devices.front(), model.of(stage));
      limit = std::min(limit, held.value_or(limit));
    }
  return static_cast<int>(std::max(0.0, limit));
}

/// If the memory cannot hold all micro-batches, flushes the pipeline as rarely as possible.
void flush_as_needed(const Problem& problem, Layout& layout) {
  Problem own = problem;
  own.job = layout.job;
  const int held = plan_in_flight_limit(own, layout.plan);
  if (held > 0 && held < layout.plan.pipelines.front().micro_batches)
    layout.job.execution.flush = layout.plan.execution.flush = held;
}

}  // namespace

std::vector<Layout> megatron_layouts(const Problem& problem, const SchemeOptions&) {
  const std::vector<int> order = file_order(problem.topology);
  return megatron(problem, [&](int) { return order; });
}

std::vector<Layout> megatron_random_layouts(const Problem& problem, const SchemeOptions& options) {
  return megatron(problem, [&](int tensor) { return random_order(problem.topology, tensor, options.seed); });
}

std::vector<Layout> deepspeed_layouts(const Problem& problem, const SchemeOptions&) {
  std::vector<Layout> layouts = layouts_of_every_depth(problem, file_order(problem.topology));
  for (Layout& layout : layouts) set_decisions(layout, 1, Schedule::one_f_one_b_blocking);
  return layouts;
}

std::vector<Layout> gpipe_random_layouts(const Problem& problem, const SchemeOptions& options) {
  std::vector<Layout> layouts =
      layouts_of_every_depth(problem, random_order(problem.topology, 1, options.seed));
  for (Layout& layout : layouts) {
    set_decisions(layout, 1, Schedule::gpipe, problem.job.execution.gradient_sync);
    flush_as_needed(problem, layout);
  }
  return layouts;
}

std::vector<Layout> local_sgd_layouts(const Problem& problem, const SchemeOptions& options) {
  return contiguous_replicas(problem, options.sync_every.value_or(16));
}

std::vector<Layout> diloco_layouts(const Problem& problem, const SchemeOptions& options) {
  return contiguous_replicas(problem, options.sync_every.value_or(500));
}

}  // namespace dtfm::api
