#include "simulator/io/scenario_reader.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/base/kind_table.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"
#include "simulator/io/availability_reader.hpp"
#include "simulator/io/device_names.hpp"
#include "simulator/io/folder_files.hpp"
#include "simulator/io/trace_reader.hpp"
#include "simulator/run/failure_policy.hpp"

namespace dtfm::io {
namespace {

constexpr std::size_t max_events = 2'000'000;  // some 100 bytes each
constexpr double max_cv = 10;                  // of jitter; means are meaningless beyond it

class ScenarioReader {
 public:
  ScenarioReader(const std::filesystem::path& folder, const Topology& topology)
      : topology_(topology), names_(topology), files_(folder), has_recording_(at(topology.size())) {}

  sim::Scenario read(const YamlMap& map) {
    if (const auto name = map.optional("name")) scenario_.name = name->text();
    if (const auto seed = map.optional("seed"))
      scenario_.seed = static_cast<std::uint64_t>(seed->integer(0, std::numeric_limits<std::int64_t>::max()));
    if (const auto horizon = map.optional("horizon")) {
      scenario_.horizon_s = horizon->seconds().value();
      if (*scenario_.horizon_s == 0) throw horizon->value_error("must be above zero");
    }
    for (const auto& [key, quantity] : {std::pair{"bandwidth", sim::LinkTrace::Quantity::bandwidth},
                                        std::pair{"latency", sim::LinkTrace::Quantity::latency}})
      if (const auto traces = map.optional(key))
        for (const YamlValue& item : traces->list()) read_link_trace(item, quantity);
    if (const auto recordings = map.optional("availability"))
      for (const YamlValue& item : recordings->list()) read_availability(item);
    if (const auto events = map.optional("events")) read_events(*events);
    std::stable_sort(scenario_.events.begin(), scenario_.events.end(),
                     [](const sim::DeviceEvent& a, const sim::DeviceEvent& b) { return a.date < b.date; });
    if (const auto jitter = map.optional("compute_jitter")) read_jitter(*jitter);
    if (const auto recovery = map.optional("recovery")) read_recovery(*recovery);
    return std::move(scenario_);
  }

 private:
  void read_link_trace(const YamlValue& item, sim::LinkTrace::Quantity quantity) {
    const YamlMap map = item.map({"from", "to", "between", "trace"});
    sim::LinkTrace link;
    link.quantity = quantity;
    if (const auto between = map.optional("between")) {
      if (map.has("from") || map.has("to"))
        throw map.error("expected `between`, or `from` with `to`, not both");
      const std::vector<YamlValue> two = between->list();
      if (two.size() != 2) throw between->value_error(fmt::format("expected two ends; found {}", two.size()));
      link.from = names_.membership(two[0]);
      link.to = names_.membership(two[1]);
      link.both_directions = true;
    } else {
      link.from = names_.membership(map.required("from"));
      link.to = names_.membership(map.required("to"));
    }
    link.trace = static_cast<int>(scenario_.traces.size());
    scenario_.traces.push_back(read_trace(map.required("trace"), quantity, files_));
    scenario_.link_traces.push_back(std::move(link));
  }

  void read_availability(const YamlValue& item) {
    const YamlMap map = item.map({"file", "format", "time_unit", "devices", "warning"});
    AvailabilityFormat format;
    format.has_counts = map.required("format").choice({"events", "count"}) == 1;
    const auto unit = map.optional("time_unit");
    format.time = unit ? read_unit(*unit, time_unit) : time_unit(format.has_counts ? "s" : "ms");
    const auto devices = map.optional("devices");
    if (devices)
      format.devices = devices->is_list() ? names_.devices_of_list(*devices) : names_.devices(*devices);
    else
      for (int i = 0; i < topology_.size(); ++i) format.devices.push_back(i);
    for (const int device : format.devices) {
      if (has_recording_[at(device)])
        throw item.error(fmt::format("{} is covered by two availability traces; restrict them with `devices`",
                                     quote(topology_.devices[at(device)].id)));
      has_recording_[at(device)] = true;
    }
    NamedFile file = files_.read(map.required("file"));
    std::vector<sim::DeviceEvent> events = parse_availability(std::move(file.text), file.path, format);
    if (const auto warning = map.optional("warning"))
      for (sim::DeviceEvent& event : events)
        if (event.kind == sim::DeviceEvent::Kind::leave) event.warning_s = warning->seconds().value();
    scenario_.events.insert(scenario_.events.end(), events.begin(), events.end());
  }

  struct LocatedEvent {
    YamlValue entry;
    sim::DeviceEvent event;
  };

  /// Parses an event without its devices.
  static sim::DeviceEvent parse_change(const YamlMap& map) {
    sim::DeviceEvent event;
    event.date = map.required("at").seconds().value();
    const auto leave = map.optional("leave"), join = map.optional("join"), speed = map.optional("speed");
    if ((leave ? 1 : 0) + (join ? 1 : 0) + (speed ? 1 : 0) != 1)
      throw map.error("expected one of `leave: true`, `join: true` and `speed: FACTOR`");
    const auto warning = map.optional("warning");
    if (warning && !leave)
      throw warning->value_error("only a device that leaves has a warning; remove it, or add `leave: true`");
    if (speed) {
      event.kind = sim::DeviceEvent::Kind::speed;
      event.speed = speed->ratio();
      return event;
    }
    const YamlValue& change = leave ? *leave : *join;
    if (!change.boolean()) throw change.value_error("expected true");
    event.kind = leave ? sim::DeviceEvent::Kind::leave : sim::DeviceEvent::Kind::join;
    if (warning) event.warning_s = warning->seconds().value();
    return event;
  }

  void read_event(const YamlValue& item, std::vector<LocatedEvent>& events) const {
    const YamlMap map = item.map({"at", "device", "site", "leave", "warning", "join", "speed"});
    sim::DeviceEvent event = parse_change(map);
    const auto device = map.optional("device"), site = map.optional("site");
    if (device.has_value() == site.has_value()) throw map.error("expected one of `device` and `site`");
    const std::vector<int> all = device ? std::vector{names_.device(*device)} : names_.site(*site);
    if (events.size() + all.size() > max_events)
      throw item.error(fmt::format("more than {} device events in total", max_events));
    for (const int each : all) {
      if (has_recording_[at(each)] && event.kind != sim::DeviceEvent::Kind::speed)
        throw(device ? *device : *site)
            .error(fmt::format("{} cannot have `leave` or `join` events: `availability` covers it",
                               quote(topology_.devices[at(each)].id)));
      event.device = each;
      events.push_back({item, event});
    }
  }

  void read_events(const YamlValue& value) {
    std::vector<LocatedEvent> events;
    for (const YamlValue& item : value.list()) read_event(item, events);
    std::stable_sort(events.begin(), events.end(), [](const LocatedEvent& a, const LocatedEvent& b) {
      return a.event.date < b.event.date;
    });
    std::vector<bool> available(at(topology_.size()), true);
    for (const auto& [entry, event] : events) {
      if (event.kind != sim::DeviceEvent::Kind::speed) {
        const bool joins = event.kind == sim::DeviceEvent::Kind::join;
        if (available[at(event.device)] == joins)
          throw entry.error(fmt::format(
              "{} {} at {} s, but it {}", quote(topology_.devices[at(event.device)].id),
              joins ? "joins" : "leaves", event.date, joins ? "is already available" : "has already left"));
        available[at(event.device)] = joins;
      }
      scenario_.events.push_back(event);
    }
  }

  void read_jitter(const YamlValue& value) {
    const YamlMap map = value.map({"kind", "cv"});
    map.required("kind").choice({"lognormal"});
    scenario_.compute_jitter.cv = map.required("cv").number(0, max_cv);
  }

  void read_recovery(const YamlValue& value) {
    const YamlMap map = value.map({"policy", "detection", "spare", "exclude_slower_than", "checkpoint"});
    if (const auto policy = map.optional("policy")) scenario_.on_failure = read_policy(*policy);
    if (const auto detection = map.optional("detection"))
      scenario_.detection_s = detection->seconds().value();
    if (const auto spare = map.optional("spare")) scenario_.spares = names_.devices_of_list(*spare);
    if (const auto share = map.optional("exclude_slower_than"))
      scenario_.exclude_slower_than = share->number(0, 1);
    if (const auto checkpoint = map.optional("checkpoint")) {
      const YamlMap entry = checkpoint->map({"period", "bandwidth", "device"});
      const auto bandwidth = entry.optional("bandwidth"), device = entry.optional("device");
      if (!bandwidth && !device) throw entry.error("expected `bandwidth`, `device` or both");
      sim::Checkpoint& place = scenario_.checkpoint.emplace();
      if (bandwidth) place.bandwidth = bandwidth->rate().value();
      if (device) place.device = names_.device(*device);
      const auto period = entry.optional("period");
      place.is_period_automatic = period && period->is_word("auto");
      if (period && !place.is_period_automatic) {
        place.period_s = period->seconds().value();
        if (place.period_s == 0) throw period->value_error("must be above zero");
      }
    }
  }

  static sim::FailurePolicy read_policy(const YamlValue& value) {
    const auto table = sim::failure_policy_table();
    return table[value.choice(names_in(table))].kind;
  }

  const Topology& topology_;
  DeviceNames names_;
  FolderFiles files_;
  std::vector<bool> has_recording_;  // [device]: an availability trace covers it
  sim::Scenario scenario_;
};

}  // namespace

sim::Scenario read_scenario(const std::filesystem::path& path, const Topology& topology) {
  return parse_scenario(read_file(path, yaml_size_limit), path.string(), path.parent_path(), topology);
}

sim::Scenario parse_scenario(std::string text, const std::string& file, const std::filesystem::path& folder,
                             const Topology& topology) {
  const YamlDocument document(std::move(text), file);
  const YamlMap map = versioned_map(document, "a scenario",
                                    {"version", "name", "seed", "horizon", "bandwidth", "latency",
                                     "availability", "events", "compute_jitter", "recovery"});
  sim::Scenario scenario = ScenarioReader(folder, topology).read(map);
  if (scenario.name.empty()) scenario.name = std::filesystem::path(file).stem().string();
  return scenario;
}

}  // namespace dtfm::io
