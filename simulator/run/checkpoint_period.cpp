#include "simulator/run/checkpoint_period.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "core/plan/virtual_stages.hpp"
#include "simulator/graph/graph_replay.hpp"
#include "simulator/run/recovery_graph.hpp"

namespace dtfm::sim {
namespace {

/// Time to write a checkpoint on the undisturbed network.
double checkpoint_write_s(const Problem& problem, const Plan& plan, const Checkpoint& checkpoint) {
  const Plan computed = expand_virtual_stages(plan);
  const std::vector<bool> all(computed.pipelines.size(), true);
  const std::vector<StageShard> shards = stage_shards(problem.topology, computed, all);
  return replay(checkpoint_graph(problem, plan, shards, checkpoint).graph).makespan;
}

/// Devices that leave at the same time are one failure, and those that are missing from the start are none.
/// Without a horizon, the length of the run is not known, and the last event stands for its end.
double mean_time_between_failures_s(const Plan& plan, const Scenario& scenario) {
  if (scenario.events.empty()) return infinity;
  const double end = scenario.horizon_s.value_or(scenario.events.back().date);
  const std::vector<int> devices = pipeline_major(plan);
  const int last_device = *std::max_element(devices.begin(), devices.end());
  std::vector<bool> is_planned(at(last_device) + 1);
  for (const int device : devices) is_planned[at(device)] = true;
  int failures = 0;
  double last = 0;
  for (const DeviceEvent& event : scenario.events) {
    const bool is_failure = event.kind == DeviceEvent::Kind::leave && event.date > last &&
                            event.date <= end && event.device <= last_device && is_planned[at(event.device)];
    if (!is_failure) continue;
    last = event.date;
    ++failures;
  }
  return failures == 0 ? infinity : end / failures;
}

}  // namespace

double young_daly_period_s(const Problem& problem, const Plan& plan, const Scenario& scenario) {
  // If writing takes no time, every iteration ends with a checkpoint. A period of zero would mean none.
  constexpr double min_period_s = 1e-11;  // the grid of simulated time
  const double between_failures_s = mean_time_between_failures_s(plan, scenario);
  if (std::isinf(between_failures_s)) return infinity;
  const double write_s = checkpoint_write_s(problem, plan, scenario.checkpoint.value());
  return std::max(min_period_s, std::sqrt(2 * write_s * between_failures_s));
}

Scenario with_checkpoint_period(Scenario scenario, double period_s) {
  if (!has_automatic_period(scenario)) return scenario;
  scenario.checkpoint->period_s = period_s;
  scenario.checkpoint->is_period_automatic = false;
  return scenario;
}

}  // namespace dtfm::sim
