#include "planner/api/speedup.hpp"

#include <utility>

#include <fmt/format.h>

namespace dtfm::api {

RunSettings settings_of(const Plan& plan) {
  const ExecutionConfig& execution = plan.execution;
  return {execution.schedule, execution.chunks, execution.gradient_sync, execution.overlap,
          execution.optimizer_sharding};
}

Job with_settings(Job job, const RunSettings& settings) {
  ExecutionConfig& execution = job.execution;
  execution.schedule = settings.schedule;
  execution.chunks = settings.chunks;
  execution.gradient_sync = settings.gradient_sync;
  execution.overlap = settings.overlap;
  execution.optimizer_sharding = settings.optimizer_sharding;
  for (const Setting it : {Setting::schedule, Setting::gradient_sync, Setting::optimizer_sharding})
    job.automatic[it] = false;
  return job;
}

std::string format_settings(const RunSettings& settings) {
  std::string text = fmt::format("{}{}, {}{}", name_of(settings.schedule),
                                 settings.chunks ? fmt::format(" {}", *settings.chunks) : "",
                                 name_of(settings.gradient_sync), settings.overlap ? " overlapped" : "");
  if (settings.optimizer_sharding != OptimizerSharding::none)
    text += fmt::format(" {}", name_of(settings.optimizer_sharding));
  return text;
}

bool is_decomposable(const ChosenLayout& chosen) {
  if (!chosen.layout || chosen.layout->sync_every != 1 || chosen.layout->skipped) return false;
  const ExecutionConfig& execution = chosen.layout->plan.execution;
  return can_shard(execution) && !execution.optimizer_offload;
}

namespace {

/// `settings` with the schedule of `other`, unless the optimizer sharding cannot run with it.
RunSettings with_schedule(RunSettings settings, const RunSettings& other) {
  const RunSettings given = settings;
  settings.schedule = other.schedule;
  settings.chunks = other.chunks;
  return can_shard(with_settings({}, settings).execution) ? settings : given;
}

}  // namespace

SettingSteps steps_between(const Layout& layout, const Plan& planned) {
  const RunSettings to = settings_of(planned), own = settings_of(layout.plan);
  RunSettings from = layout.plan.pipelines.size() == 1 ? with_schedule(to, own) : own;
  const RunSettings planned_schedule = with_schedule(from, to);
  if (depth(layout.plan) == 1) from = planned_schedule;
  return {from, planned_schedule};
}

}  // namespace dtfm::api
