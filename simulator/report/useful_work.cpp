#include "simulator/report/useful_work.hpp"

#include <algorithm>

#include "core/base/index.hpp"
#include "simulator/observation/device_timeline.hpp"
#include "simulator/observation/interval_times.hpp"

namespace dtfm::sim {

void EgressMeter::on_interval(const RunInterval& run_interval) {
  const std::vector<Task>& tasks = run_interval.graph.graph.tasks;
  for (std::size_t i = 0; i < tasks.size(); ++i)
    if (is_message(tasks[i]) && run_interval.replay.tasks[i].state == TaskState::done)
      usd_ += run_interval.repetitions * tasks[i].amount *
              topology_.link(tasks[i].host, tasks[i].destination).egress.value();
}

bool has_disruptions(const Scenario& scenario) {
  return (scenario.checkpoint && scenario.checkpoint->period_s > 0) || scenario.exclude_slower_than > 0 ||
         std::any_of(scenario.events.begin(), scenario.events.end(),
                     [](const DeviceEvent& event) { return event.kind != DeviceEvent::Kind::speed; });
}

UsefulWork useful_work(const Problem& problem, const Scenario& scenario, const SimReport& report,
                       const PlanThroughput& plan, double usd_egress) {
  const Topology& topology = problem.topology;
  const double length = report.length_s;
  const auto down = down_intervals(scenario, topology.size());
  double available_device_s = 0;  // sum over all devices
  UsefulWork work;
  work.usd_egress = usd_egress;
  work.usd = usd_egress;
  for (int device = 0; device < topology.size(); ++device) {
    const double available_s = length - union_length(down[at(device)], {0, length});
    available_device_s += available_s;
    const auto price = price_of(topology, device);
    if (price && work.usd)
      *work.usd += price->value() * available_s / seconds_per_hour;
    else
      work.usd.reset();
  }
  work.samples = plan.samples * static_cast<double>(report.iterations.size());
  work.samples_per_s = length > 0 ? work.samples / length : 0;
  if (plan.iteration_s > 0 && plan.devices > 0)
    work.optimal_samples = plan.samples / plan.iteration_s * available_device_s / plan.devices;
  if (work.optimal_samples > 0) work.share_of_optimal = work.samples / work.optimal_samples;
  return work;
}

}  // namespace dtfm::sim
