#include "simulator/run/scenario_profiles.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "simulator/run/trace_cursor.hpp"

namespace dtfm::sim {
namespace {

bool applies_to(const LinkTrace& trace, int from, int to) {
  return (trace.from[at(from)] && trace.to[at(to)]) ||
         (trace.both_directions && trace.from[at(to)] && trace.to[at(from)]);
}

/// Whether the trace covers all devices that receive from `from` over the same link entry of the topology.
bool applies_to_all_receivers(const LinkTrace& trace, const Topology& topology, int from, int link_index) {
  for (int device = 0; device < topology.size(); ++device)
    if (device != from && !applies_to(trace, from, device) && topology.link_index(from, device) == link_index)
      return false;
  return true;
}

bool applies_to_sites(const LinkTrace& trace, const Topology& topology, int from_site, int to_site) {
  for (int from = 0; from < topology.size(); ++from) {
    if (topology.devices[at(from)].site != from_site) continue;
    for (int to = 0; to < topology.size(); ++to)
      if (from != to && topology.devices[at(to)].site == to_site && !applies_to(trace, from, to))
        return false;
  }
  return true;
}

bool affects_link(const LinkTrace& link_trace, const Trace& trace, const LinkRole& role,
                  const Topology& topology) {
  if (role.kind == LinkRole::Kind::flow) return applies_to(link_trace, role.from, role.to);
  if (link_trace.quantity == LinkTrace::Quantity::latency) return false;
  if (role.kind == LinkRole::Kind::sender)
    return applies_to(link_trace, role.from, role.to) &&
           applies_to_all_receivers(link_trace, topology, role.from, role.link_index);
  if (role.kind == LinkRole::Kind::pair_capacity)
    return trace.relative && applies_to_sites(link_trace, topology, role.from, role.to);
  return false;
}

/// The product of the current values of all traces that have begun. Each trace has values in a meaningful
/// range; throws Error if their product is not.
double product(const std::vector<TraceCursor>& cursors) {
  constexpr double min_product = 1e-24, max_product = 1e24;
  double value = 1;
  for (const TraceCursor& cursor : cursors) {
    value *= cursor.value().value_or(1);
    if (value != 0 && (value < min_product || value > max_product))
      throw Error("", fmt::format("the traces of one link multiply to {:g}, outside the range {:g} to {:g}",
                                  value, min_product, max_product));
  }
  return value;
}

std::vector<Profile::Step> steps_between(const std::vector<const Trace*>& traces, double start, double end) {
  std::vector<TraceCursor> cursors;
  for (const Trace* trace : traces) cursors.emplace_back(*trace, start);
  std::vector<Profile::Step> steps{{start, product(cursors)}};
  for (;;) {
    double next = infinity;
    for (const TraceCursor& cursor : cursors) next = std::min(next, cursor.next_date());
    if (!(next <= end) || next == infinity) return steps;
    for (TraceCursor& cursor : cursors)
      if (cursor.next_date() == next) cursor.advance();
    if (const double value = product(cursors); value != steps.back().value) steps.push_back({next, value});
    if (steps.size() > ScenarioProfiles::max_changes)
      throw Error("",
                  "the traces of the scenario change too often: more than 20,000,000 times during one "
                  "iteration");
  }
}

}  // namespace

ScenarioProfiles::ScenarioProfiles(const Scenario& scenario, const Topology& topology,
                                   const LabelledGraph& graph)
    : scenario_(scenario) {
  add_links(topology, graph);
  add_speeds(graph);
}

void ScenarioProfiles::add_links(const Topology& topology, const LabelledGraph& graph) {
  using Quantity = LinkTrace::Quantity;
  for (const Quantity quantity : {Quantity::bandwidth, Quantity::latency}) {
    std::map<std::vector<int>, std::size_t> group_of;  // by trace numbers
    for (std::size_t link = 0; link < graph.links.size(); ++link) {
      std::vector<int> traces;
      for (const LinkTrace& it : scenario_.link_traces)
        if (it.quantity == quantity &&
            affects_link(it, scenario_.traces[at(it.trace)], graph.links[link], topology))
          traces.push_back(it.trace);
      if (traces.empty()) continue;
      const auto [link_index, is_new] = group_of.emplace(traces, groups_.size());
      if (is_new) {
        LinkGroup& group = groups_.emplace_back();
        group.quantity =
            quantity == Quantity::bandwidth ? Profile::Quantity::bandwidth : Profile::Quantity::latency;
        for (const int number : traces) {
          const Trace& trace = scenario_.traces[at(number)];
          if (trace.relative)
            group.relative.push_back(&trace);
          else
            group.absolute = &trace;
        }
      }
      const auto& base = graph.graph.links[link];
      groups_[link_index->second].targets.push_back(
          {static_cast<int>(link), quantity == Quantity::bandwidth ? base.bandwidth : base.latency});
    }
  }
}

void ScenarioProfiles::add_speeds(const LabelledGraph& graph) {
  std::map<int, std::vector<Profile::Step>> steps;
  for (const DeviceEvent& event : scenario_.events) {
    if (event.kind != DeviceEvent::Kind::speed) continue;
    std::vector<Profile::Step>& of_device = steps[event.device];
    if (!of_device.empty() && of_device.back().date == event.date) of_device.pop_back();
    of_device.push_back({event.date, event.speed});
  }
  for (auto& [device, of_device] : steps)
    speeds_.push_back({device, graph.graph.hosts[at(device)].speed, std::move(of_device)});
}

void ScenarioProfiles::add(const LinkGroup& group, double start, double end,
                           std::vector<Profile>& profiles) const {
  const double absolute_from = group.absolute ? group.absolute->steps.front().date : infinity;
  if (start < absolute_from && !group.relative.empty()) {
    const double last = absolute_from <= end ? std::nextafter(absolute_from, 0.0) : end;
    profiles.push_back({group.quantity, group.targets, steps_between(group.relative, start, last)});
  }
  if (absolute_from > end) return;
  std::vector<const Trace*> traces = group.relative;
  traces.push_back(group.absolute);
  std::vector<Profile::Target> targets = group.targets;
  // Traces have bit/s, links bytes per second.
  for (Profile::Target& target : targets)
    target.scale = group.quantity == Profile::Quantity::bandwidth ? 1 / bits_per_byte : 1;
  profiles.push_back(
      {group.quantity, std::move(targets), steps_between(traces, std::max(start, absolute_from), end)});
}

std::vector<Profile> ScenarioProfiles::between(double start, double end) const {
  std::vector<Profile> profiles;
  for (const LinkGroup& group : groups_) add(group, start, end, profiles);
  for (const HostSpeed& speed : speeds_) {
    Profile profile{Profile::Quantity::speed, {{speed.host, speed.base}}, {}};
    for (const Profile::Step& step : speed.steps)
      if (step.date <= start)
        profile.steps = {{start, step.value}};
      else if (step.date <= end)
        profile.steps.push_back(step);
    if (!profile.steps.empty()) profiles.push_back(std::move(profile));
  }
  return profiles;
}

bool ScenarioProfiles::changes_after(double date) const {
  return traces_change_after(date) ||
         std::any_of(speeds_.begin(), speeds_.end(),
                     [&](const HostSpeed& speed) { return speed.steps.back().date > date; });
}

bool ScenarioProfiles::traces_change_after(double date) const {
  const auto changes = [&](const Trace* trace) {
    return trace != nullptr && (trace->period > 0 || trace->steps.back().date > date);
  };
  return std::any_of(groups_.begin(), groups_.end(), [&](const LinkGroup& group) {
    return changes(group.absolute) || std::any_of(group.relative.begin(), group.relative.end(), changes);
  });
}

}  // namespace dtfm::sim
