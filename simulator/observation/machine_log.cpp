#include "simulator/observation/machine_log.hpp"

#include <algorithm>
#include <limits>

#include "planner/core/index.hpp"
#include "simulator/engine/clock.hpp"

namespace dtfm::sim {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

MachineLog::MachineLog(const Scenario& scenario, int devices)
    : scenario_(scenario),
      there_(at(devices), true),
      speeds_(at(devices), 1),
      departures_(at(devices)),
      departures_taken_(at(devices)) {
  for (const DeviceEvent& event : scenario.events)
    if (event.kind == DeviceEvent::Kind::leave) departures_[at(event.device)].push_back(on_grid(event.date));
}

const DeviceEvent* MachineLog::take(double date) {
  if (next_ == scenario_.events.size() || on_grid(scenario_.events[next_].date) > date) return nullptr;
  const DeviceEvent& event = scenario_.events[next_++];
  if (event.kind == DeviceEvent::Kind::speed) {
    speeds_[at(event.device)] = event.speed;
    return &event;
  }
  there_[at(event.device)] = event.kind == DeviceEvent::Kind::join;
  if (event.kind == DeviceEvent::Kind::leave) ++departures_taken_[at(event.device)];
  return &event;
}

double MachineLog::next_date() const {
  return next_ == scenario_.events.size() ? infinity : on_grid(scenario_.events[next_].date);
}

double MachineLog::next_change() const {
  const auto next =
      std::find_if(scenario_.events.begin() + static_cast<std::ptrdiff_t>(next_), scenario_.events.end(),
                   [](const DeviceEvent& event) { return event.kind != DeviceEvent::Kind::speed; });
  return next == scenario_.events.end() ? infinity : on_grid(next->date);
}

double MachineLog::last_departure(int device) const {
  return departures_[at(device)].at(departures_taken_[at(device)] - 1);
}

double MachineLog::next_departure(int device) const {
  const std::vector<double>& dates = departures_[at(device)];
  const std::size_t taken = departures_taken_[at(device)];
  return taken < dates.size() ? dates[taken] : infinity;
}

std::vector<std::vector<Interval>> down_times(const Scenario& scenario, int devices) {
  std::vector<std::vector<Interval>> down(at(devices));
  for (const DeviceEvent& event : scenario.events) {
    if (event.kind == DeviceEvent::Kind::leave)
      down[at(event.device)].push_back({on_grid(event.date), infinity});
    if (event.kind == DeviceEvent::Kind::join) down[at(event.device)].back().end = on_grid(event.date);
  }
  return down;
}

}  // namespace dtfm::sim
