// Every device computes all layers: plain data parallelism, ZeRO, and one device alone.
#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "planner/api/schemes/layout.hpp"
#include "planner/core/divisors.hpp"
#include "planner/core/error.hpp"
#include "planner/core/index.hpp"

namespace dtfm::api {
namespace {

std::vector<int> all_devices(const Problem& problem) {
  std::vector<int> devices;
  for (int i = 0; i < problem.topology->size(); ++i) devices.push_back(i);
  return devices;
}

void check_batch(const Problem& problem) {
  const int batch = problem.job.training.global_batch, devices = problem.topology->size();
  if (batch < devices)
    throw NoLayout(fmt::format("a batch of {} leaves some of {} devices without a sequence", batch, devices));
}

/// Whether every device can hold its model and one micro-batch.
bool fits(const Problem& problem, const Layout& layout) {
  Problem own = problem;
  own.job = layout.job;
  const sim::LoadModel model(own, layout.plan);
  return std::all_of(layout.plan.pipelines.begin(), layout.plan.pipelines.end(), [&](const Pipeline& it) {
    const auto memory = memory_of(problem.topology, it.stages.front().devices.front());
    return !memory || needed_bytes(model.of(it.stages.front())) <= *memory;
  });
}

Layout shard(const Problem& problem, int micro_batch, OptimizerSharding sharding) {
  Layout layout = replicate(problem, all_devices(problem), micro_batch, GradientSync::ring);
  layout.job.execution.optimizer_sharding = sharding;
  layout.plan.execution = layout.job.execution;
  return layout;
}

/// Uses the largest micro-batch that fits, because parameters and gradients are communicated once per
/// micro-batch. If none fits, returns micro-batches of one sequence, whose memory deficit is then reported.
std::vector<Layout> zero(const Problem& problem, OptimizerSharding sharding) {
  check_batch(problem);
  const int batch = problem.job.training.global_batch, devices = problem.topology->size();
  for (int micro_batch = largest_divisor(batch, batch / devices); micro_batch > 1;
       micro_batch = largest_divisor(batch, micro_batch - 1)) {
    Layout layout = shard(problem, micro_batch, sharding);
    if (fits(problem, layout)) return {std::move(layout)};
  }
  return {shard(problem, 1, sharding)};
}

}  // namespace

std::vector<Layout> data_parallel_layouts(const Problem& problem, const SchemeOptions&) {
  check_batch(problem);
  // Every device computes at least one micro-batch.
  const int batch = problem.job.training.global_batch;
  const int micro_batch =
      largest_divisor(batch, std::min(problem.job.execution.micro_batch, batch / problem.topology->size()));
  return {replicate(problem, all_devices(problem), micro_batch, GradientSync::ring)};
}

std::vector<Layout> zero2_layouts(const Problem& problem, const SchemeOptions&) {
  return zero(problem, OptimizerSharding::zero2);
}

std::vector<Layout> zero3_layouts(const Problem& problem, const SchemeOptions&) {
  return zero(problem, OptimizerSharding::zero3);
}

std::vector<Layout> single_gpu_layouts(const Problem& problem, const SchemeOptions&) {
  std::map<std::pair<int, double>, int> kinds;
  for (int i = 0; i < problem.topology->size(); ++i) {
    const Device& device = problem.topology->devices[at(i)];
    kinds.try_emplace({device.gpu, device.speed}, i);
  }
  std::vector<Layout> layouts;
  for (const auto& [kind, device] : kinds)
    layouts.push_back(replicate(problem, {device}, problem.job.execution.micro_batch, GradientSync::ring));
  return layouts;
}

}  // namespace dtfm::api
