#include "planner/api/schemes/layout.hpp"

#include <cmath>

#include <fmt/format.h>

#include "core/base/index.hpp"

namespace dtfm::api {

void set_decisions(Layout& layout, int tensor, Schedule schedule, GradientSync gradient_sync) {
  ExecutionConfig& execution = layout.job.execution;
  layout.job.parallelism.tensor = layout.plan.tensor = tensor;
  execution.schedule = schedule;
  execution.gradient_sync = gradient_sync;
  execution.optimizer_sharding = OptimizerSharding::none;
  execution.chunks.reset();
  execution.flush.reset();
  execution.overlap = false;
  layout.plan.execution = execution;
}

Layout replicate(const Problem& problem, const std::vector<int>& devices, int micro_batch) {
  Layout layout{problem.job, {}};
  layout.job.execution.micro_batch = micro_batch;
  set_decisions(layout, 1, Schedule::one_f_one_b);
  const int count = micro_batch_count(layout.job), replicas = static_cast<int>(devices.size());
  for (int i = 0; i < replicas; ++i) {
    const auto [first, last] = even_split(count, replicas, i);
    layout.plan.pipelines.push_back(
        {last - first, {{{0, layer_count(problem.job.model)}, {devices[at(i)]}}}});
  }
  return layout;
}

std::optional<double> memory_of(const Topology& topology, int device) {
  const int gpu = topology.devices[at(device)].gpu;
  return gpu < 0 ? std::nullopt : std::optional(topology.gpus[at(gpu)].memory.value());
}

double needed_bytes(const sim::StageLoad& load) {
  return load.state_bytes + load.activation_bytes + load.working_bytes;
}

std::optional<double> max_in_flight(const Topology& topology, int device, const sim::StageLoad& load) {
  const auto memory = memory_of(topology, device);
  if (!memory || load.activation_bytes <= 0) return std::nullopt;
  return 1 + std::floor((*memory - needed_bytes(load)) / load.activation_bytes);
}

MemoryDeficit memory_deficit(const Topology& topology, int device, double needed, double memory) {
  return {needed / memory, fmt::format("{} needs {:.1f} GB of {:.1f}", topology.devices[at(device)].id,
                                       needed / 1e9, memory / 1e9)};
}

void keep_smallest(std::optional<MemoryDeficit>& smallest, const MemoryDeficit& deficit) {
  if (!smallest || deficit.ratio < smallest->ratio) smallest = deficit;
}

}  // namespace dtfm::api
