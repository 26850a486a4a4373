#include "simulator/observation/device_timeline.hpp"

#include <algorithm>

#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "simulator/engine/clock.hpp"

namespace dtfm::sim {

DeviceTimeline::DeviceTimeline(const Scenario& scenario, int devices)
    : scenario_(scenario),
      available_(at(devices), true),
      speeds_(at(devices), 1),
      failures_(at(devices)),
      failures_taken_(at(devices)) {
  std::vector<double> joined(at(devices));  // when each device joined last
  for (const DeviceEvent& event : scenario.events) {
    if (event.kind == DeviceEvent::Kind::join) joined[at(event.device)] = event.date;
    if (event.kind == DeviceEvent::Kind::leave)
      failures_[at(event.device)].push_back(
          {round_to_tick(event.date),
           round_to_tick(std::max(event.date - event.warning_s, joined[at(event.device)]))});
  }
}

const DeviceEvent* DeviceTimeline::take(double date) {
  if (next_ == scenario_.events.size() || round_to_tick(scenario_.events[next_].date) > date) return nullptr;
  const DeviceEvent& event = scenario_.events[next_++];
  if (event.kind == DeviceEvent::Kind::speed) {
    speeds_[at(event.device)] = event.speed;
    return &event;
  }
  available_[at(event.device)] = event.kind == DeviceEvent::Kind::join;
  if (event.kind == DeviceEvent::Kind::leave) ++failures_taken_[at(event.device)];
  return &event;
}

double DeviceTimeline::next_date() const {
  return next_ == scenario_.events.size() ? infinity : round_to_tick(scenario_.events[next_].date);
}

double DeviceTimeline::next_membership_change() const {
  const auto next =
      std::find_if(scenario_.events.begin() + static_cast<std::ptrdiff_t>(next_), scenario_.events.end(),
                   [](const DeviceEvent& event) { return event.kind != DeviceEvent::Kind::speed; });
  return next == scenario_.events.end() ? infinity : round_to_tick(next->date);
}

double DeviceTimeline::last_failure(int device) const {
  return failures_[at(device)].at(failures_taken_[at(device)] - 1).date;
}

const DeviceTimeline::Failure* DeviceTimeline::find_next_failure(int device) const {
  const std::vector<Failure>& failures = failures_[at(device)];
  const std::size_t taken = failures_taken_[at(device)];
  return taken < failures.size() ? &failures[taken] : nullptr;
}

double DeviceTimeline::next_failure(int device) const {
  const Failure* next = find_next_failure(device);
  return next ? next->date : infinity;
}

double DeviceTimeline::next_warning(int device) const {
  const Failure* next = find_next_failure(device);
  return next ? next->known_from : infinity;
}

std::vector<std::vector<Interval>> down_intervals(const Scenario& scenario, int devices) {
  std::vector<std::vector<Interval>> down(at(devices));
  for (const DeviceEvent& event : scenario.events) {
    if (event.kind == DeviceEvent::Kind::leave)
      down[at(event.device)].push_back({round_to_tick(event.date), infinity});
    if (event.kind == DeviceEvent::Kind::join) down[at(event.device)].back().end = round_to_tick(event.date);
  }
  return down;
}

}  // namespace dtfm::sim
