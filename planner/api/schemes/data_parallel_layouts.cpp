// Every device computes all layers: plain data parallelism, ZeRO, and one device alone.
#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "planner/api/schemes/layout.hpp"
#include "core/base/divisors.hpp"
#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace dtfm::api {
namespace {

std::vector<int> all_devices(const Problem& problem) {
  std::vector<int> devices;
  for (int i = 0; i < problem.topology->size(); ++i) devices.push_back(i);
  return devices;
}

/// A replica on every device, each with at least one micro-batch.
Layout replicate_all(const Problem& problem, OptimizerSharding sharding) {
  const int batch = problem.job.training.global_batch, devices = problem.topology->size();
  if (batch < devices)
    throw NoLayout(fmt::format("a batch of {} leaves some of {} devices without a sequence", batch, devices));
  const int micro_batch =
      largest_divisor(batch, std::min(problem.job.execution.micro_batch, batch / devices));
  Layout layout = replicate(problem, all_devices(problem), micro_batch);
  layout.job.execution.optimizer_sharding = sharding;
  layout.plan.execution = layout.job.execution;
  return layout;
}

}  // namespace

std::vector<Layout> data_parallel_layouts(const Problem& problem, const SchemeOptions&) {
  return {replicate_all(problem, OptimizerSharding::none)};
}

std::vector<Layout> zero2_layouts(const Problem& problem, const SchemeOptions&) {
  return {replicate_all(problem, OptimizerSharding::zero2)};
}

std::vector<Layout> zero3_layouts(const Problem& problem, const SchemeOptions&) {
  return {replicate_all(problem, OptimizerSharding::zero3)};
}

std::vector<Layout> zero_offload_layouts(const Problem& problem, const SchemeOptions&) {
  Layout layout = replicate_all(problem, OptimizerSharding::zero2);
  layout.job.execution.optimizer_offload = layout.plan.execution.optimizer_offload = true;
  return {std::move(layout)};
}

std::vector<Layout> hsdp_layouts(const Problem& problem, const SchemeOptions&) {
  std::map<int, int> devices;  // by site
  for (const Device& it : problem.topology->devices) ++devices[it.site];
  for (const auto& [site, count] : devices)
    if (count != devices.begin()->second)
      throw NoLayout(
          fmt::format("hsdp requires equally many devices in every site; sites {} and {} have {} and {}",
                      problem.topology->sites[at(devices.begin()->first)].name,
                      problem.topology->sites[at(site)].name, devices.begin()->second, count));
  Layout layout = replicate_all(problem, OptimizerSharding::zero3);
  layout.job.execution.gradient_sync = layout.plan.execution.gradient_sync = GradientSync::hierarchical;
  return {std::move(layout)};
}

std::vector<Layout> single_gpu_layouts(const Problem& problem, const SchemeOptions&) {
  std::map<std::pair<int, double>, int> kinds;
  for (int i = 0; i < problem.topology->size(); ++i) {
    const Device& device = problem.topology->devices[at(i)];
    kinds.try_emplace({device.gpu, device.speed}, i);
  }
  std::vector<Layout> layouts;
  for (const auto& [kind, device] : kinds)
    layouts.push_back(replicate(problem, {device}, problem.job.execution.micro_batch));
  return layouts;
}

}  // namespace dtfm::api
