#include "planner/api/speedup.hpp"

#include <utility>

#include <fmt/format.h>

namespace dtfm::api {

RunSettings settings_of(const Plan& plan) {
  const ExecutionConfig& execution = plan.execution;
  return {execution.schedule, execution.chunks, execution.gradient_sync, execution.overlap};
}

Job with_settings(Job job, const RunSettings& settings) {
  ExecutionConfig& execution = job.execution;
  execution.schedule = settings.schedule;
  execution.chunks = settings.chunks;
  execution.gradient_sync = settings.gradient_sync;
  execution.overlap = settings.overlap;
  job.automatic.schedule = job.automatic.gradient_sync = false;
  return job;
}

std::string format_settings(const RunSettings& settings) {
  return fmt::format("{}{}, {}{}", name_of(settings.schedule),
                     settings.chunks ? fmt::format(" {}", *settings.chunks) : "",
                     name_of(settings.gradient_sync), settings.overlap ? " overlapped" : "");
}

bool is_decomposable(const ChosenLayout& chosen) {
  return chosen.layout && chosen.layout->sync_every == 1 && !chosen.layout->skipped &&
         traits(chosen.layout->plan.execution.gradient_sync).in_jobs;
}

SettingSteps steps_between(const Layout& layout, const Plan& planned) {
  const RunSettings to = settings_of(planned);
  RunSettings from = settings_of(layout.plan);
  if (depth(layout.plan) == 1) {
    from.schedule = to.schedule;
    from.chunks = to.chunks;
  }
  if (layout.plan.pipelines.size() == 1) {
    from.gradient_sync = to.gradient_sync;
    from.overlap = to.overlap;
  }
  SettingSteps steps{from, from};
  steps.planned_schedule.schedule = to.schedule;
  steps.planned_schedule.chunks = to.chunks;
  return steps;
}

}  // namespace dtfm::api
