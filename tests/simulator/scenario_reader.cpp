#include "simulator/io/scenario_reader.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "simulator/io/availability_reader.hpp"
#include "simulator/io/trace_reader.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dtfm;
using namespace dtfm::io;
using namespace dtfm::sim;

namespace {

/// Devices a/0, a/1, b/0:0, b/0:1.
const Topology& four_devices() {
  static const Topology topology = parse_topology(
      "version: 1\n"
      "devices: [{site: a, count: 2}, {site: b, hosts: 1, gpus_per_host: 2}]\n"
      "links: [{between: [\"*\", \"*\"], latency: 1 ms, bandwidth: 1 Gbps}]\n",
      "t.yaml", ".");
  return topology;
}

Scenario read(const std::string& entries, const std::filesystem::path& folder = ".") {
  return parse_scenario(fmt::format("version: 1\n{}", entries), "s.yaml", folder, four_devices());
}

std::string error_text(const std::string& entries, const std::filesystem::path& folder = ".") {
  return error_message([&] { read(entries, folder); });
}

TraceFormat factors() {
  TraceFormat format;
  format.relative = true;
  return format;
}

std::string trace_error(const std::string& text, const TraceFormat& format = factors()) {
  return error_message([&] { parse_trace(text, "t.csv", format); });
}

/// Formats each event as "2.5 leave 3".
std::vector<std::string> format_events(const std::vector<DeviceEvent>& events) {
  std::vector<std::string> result;
  for (const DeviceEvent& event : events) {
    const char* kind = event.kind == DeviceEvent::Kind::leave  ? "leave"
                       : event.kind == DeviceEvent::Kind::join ? "join"
                                                               : "speed";
    result.push_back(fmt::format("{} {} {}", event.date, kind, event.device));
  }
  return result;
}
using Words = std::vector<std::string>;

AvailabilityFormat recording(bool counts) {
  return {counts, time_unit(counts ? "s" : "ms"), {0, 1, 2, 3}};
}

std::vector<DeviceEvent> shared_recording(const std::string& name, bool counts, int devices) {
  AvailabilityFormat format{counts, time_unit(counts ? "s" : "ms"), {}};
  for (int i = 0; i < devices; ++i) format.devices.push_back(i);
  std::ifstream file(std::filesystem::path(DTFM_SHARED_DATA) / "spot" / name);
  std::string text(std::istreambuf_iterator<char>(file), {});
  return parse_availability(std::move(text), name, format);
}

bool has_shared_data() {
  if (std::filesystem::exists(std::filesystem::path(DTFM_SHARED_DATA) / "spot" / "p3-trace.csv")) return true;
  WARN("skipped: the recorded traces are not there");
  return false;
}

/// Returns how many of `devices` are available after the events up to `date`.
int available_at(const std::vector<DeviceEvent>& events, double date, int devices) {
  std::vector<bool> there(at(devices), true);
  for (const DeviceEvent& event : events) {
    if (event.date > date) break;
    REQUIRE(there[at(event.device)] == (event.kind == DeviceEvent::Kind::leave));
    there[at(event.device)] = event.kind == DeviceEvent::Kind::join;
  }
  return static_cast<int>(std::count(there.begin(), there.end(), true));
}

}  // namespace

TEST_CASE("every key of a scenario is read") {
  const TemporaryFolder folder;
  folder.write("wave.csv", "t,down\n0,1\n10,0.5\n");
  folder.write("fleet.csv", "0,2\n50,1\n");
  const Scenario scenario = read(
      "name: evening\nseed: 7\nhorizon: 2 h\n"
      "bandwidth: [{from: a, to: b/0, trace: {file: wave.csv, kind: relative, repeat: true}}]\n"
      "latency: [{between: [a/1, \"*\"], trace: {file: wave.csv, kind: absolute, unit: ms, column: down}}]\n"
      "availability: [{file: fleet.csv, format: count, devices: b, warning: 30 s}]\n"
      "events: [{at: 2 min, device: a/1, speed: 0.5}, {at: 60 s, device: a/0, leave: true, warning: 2 min},\n"
      "  {at: 61 s, device: a/0, join: true}]\n"
      "compute_jitter: {kind: lognormal, cv: 0.05}\n"
      "recovery: {policy: spare, detection: 5 s, spare: [b/0:1, b], checkpoint: {bandwidth: 1 Gbps}}\n",
      folder.path());
  CHECK(scenario.name == "evening");
  CHECK(scenario.seed == 7);
  CHECK(scenario.horizon_s == 7200);
  REQUIRE(scenario.link_traces.size() == 2);
  CHECK(scenario.link_traces[0].from == std::vector<bool>{true, true, false, false});
  CHECK(scenario.link_traces[0].to == std::vector<bool>{false, false, true, true});
  CHECK_FALSE(scenario.link_traces[0].both_directions);
  CHECK(scenario.link_traces[1].from == std::vector<bool>{false, true, false, false});
  CHECK(scenario.link_traces[1].to == std::vector<bool>(4, true));
  CHECK(scenario.link_traces[1].both_directions);
  CHECK(scenario.traces[0].period == 20);  // 0.5 lasts as long as 1 did
  CHECK(scenario.traces[1].steps[1].value == 0.0005);
  CHECK(format_events(scenario.events) == Words{"50 leave 3", "60 leave 0", "61 join 0", "120 speed 1"});
  CHECK(scenario.events[0].warning_s == 30);
  CHECK(scenario.events[1].warning_s == 120);
  CHECK(scenario.events.back().speed == 0.5);
  CHECK(scenario.compute_jitter.cv == 0.05);
  CHECK(scenario.on_failure == FailurePolicy::spare);
  CHECK(scenario.detection_s == 5);
  CHECK(scenario.spares == std::vector<int>{3, 2});
  REQUIRE(scenario.checkpoint.has_value());
  CHECK(scenario.checkpoint->bandwidth == 1e9);
  CHECK(scenario.checkpoint->period_s == 0);
  CHECK(scenario.exclude_slower_than == 0);
}

TEST_CASE("the period of checkpoints is a time, left to the planner, or missing") {
  const auto checkpoint = [](const std::string& period) {
    return read("recovery: {checkpoint: {" + period + "bandwidth: 1 Gbps}}\n").checkpoint.value();
  };
  CHECK(checkpoint("period: 2 min, ").period_s == 120);
  CHECK_FALSE(checkpoint("period: 2 min, ").is_period_automatic);
  CHECK(checkpoint("period: auto, ").is_period_automatic);
  CHECK(checkpoint("period: auto, ").period_s == 0);
  CHECK_FALSE(checkpoint("").is_period_automatic);
  CHECK(error_text("recovery: {checkpoint: {period: Auto, bandwidth: 1 Gbps}}\n").find("s.yaml:2:33: ") == 0);
}

TEST_CASE("an event of a site applies to all its devices") {
  const Scenario scenario = read(
      "events: [{at: 5 s, site: b, leave: true}, {at: 9 s, site: b, join: true},\n"
      "  {at: 7 s, site: a, speed: 0.5}]\n");
  CHECK(format_events(scenario.events) ==
        Words{"5 leave 2", "5 leave 3", "7 speed 0", "7 speed 1", "9 join 2", "9 join 3"});
  CHECK(error_text("events: [{at: 1 s, site: c, leave: true}]\n") ==
        "s.yaml:2:26: unknown site `c`; known: `a`, `b`");
  CHECK(error_text("events: [{at: 1 s, device: a/1, leave: true},\n  {at: 2 s, site: a, leave: true}]\n") ==
        "s.yaml:3:3: `a/1` leaves at 2 s, but it has already left");
  for (const char* who : {"", "site: a, device: a/0, "})
    CHECK(error_text(fmt::format("events: [{{at: 1 s, {}leave: true}}]\n", who)) ==
          "s.yaml:2:10: expected one of `device` and `site`");
}

TEST_CASE("an empty scenario changes nothing") {
  const Scenario scenario = read("");
  CHECK(scenario.name == "s");
  CHECK_FALSE(scenario.horizon_s.has_value());
  CHECK(scenario.link_traces.empty());
  CHECK(scenario.events.empty());
  CHECK(scenario.compute_jitter.cv == 0);
  CHECK(scenario.on_failure == FailurePolicy::restart_without_pipeline);
  CHECK_FALSE(scenario.checkpoint.has_value());
}

TEST_CASE("invalid scenarios are reported with their position") {
  CHECK(error_text("horizon: 0 s\n") == "s.yaml:2:10: `horizon`: must be above zero");
  CHECK_THAT(error_text("horizn: 1 s\n"), contains("did you mean `horizon`?"));
  CHECK(error_text("events: [{at: 1 s, device: a/2, leave: true}]\n") ==
        "s.yaml:2:28: unknown device `a/2`; did you mean `a/0`?");
  CHECK_THAT(error_text("bandwidth: [{from: c, to: b, trace: {}}]\n"),
             contains("s.yaml:2:20: unknown site, host or device `c`"));
  CHECK(error_text("events: [{at: 1 s, device: a/0, join: true}]\n") ==
        "s.yaml:2:10: `a/0` joins at 1 s, but it is already available");
  // Events are ordered by time: the second entry leaves first.
  CHECK(
      error_text("events: [{at: 2 s, device: a/0, leave: true},\n  {at: 1 s, device: a/0, leave: true}]\n") ==
      "s.yaml:2:10: `a/0` leaves at 2 s, but it has already left");
  CHECK_THAT(error_text("events: [{at: -1 s, device: a/0, leave: true}]\n"),
             contains("must not be negative"));
  CHECK_THAT(error_text("events: [{at: 1 s, device: a/0, leave: false}]\n"),
             contains("`leave`: expected true"));
  CHECK_THAT(error_text("events: [{at: 1 s, device: a/0}]\n"), contains("expected one of `leave: true`"));
  CHECK(error_text("events: [{at: 1 s, device: a/0, speed: 0.5, warning: 1 s}]\n") ==
        "s.yaml:2:54: `warning`: only a device that leaves has a warning; remove it, or add `leave: true`");
  CHECK_THAT(error_text("events: [{at: 1 s, device: a/0, leave: true, warning: -1 s}]\n"),
             contains("must not be negative"));
  CHECK_THAT(error_text("events: [{at: 1 s, device: a/0, speed: 0}]\n"), contains("must be above zero"));
  CHECK(error_text("events: [{at: 1 s, device: a/0, speed: 1e300}]\n") ==
        "s.yaml:2:40: `speed`: expected a number from 1e-06 to 1000000; found `1e300`");
  CHECK(error_text("horizon: 1e12 s\n") ==
        "s.yaml:2:10: `horizon`: `1e12 s` is out of range: a time must be from 1e-12 to 1e+09 s");
  CHECK_THAT(error_text("compute_jitter: {kind: normal, cv: 0.1}\n"),
             contains("unknown `normal`; known: `lognormal`"));
  CHECK_THAT(error_text("compute_jitter: {kind: lognormal, cv: -0.1}\n"),
             contains("expected a number from 0"));
  CHECK(error_text("recovery: {policy: wiat}\n") ==
        "s.yaml:2:20: `policy`: unknown `wiat`; did you mean `wait`?");
  CHECK_THAT(error_text("recovery: {checkpoint: {}}\n"), contains("expected `bandwidth`, `device` or both"));
  CHECK_THAT(error_text("recovery: {checkpoint: {period: 1 min}}\n"),
             contains("expected `bandwidth`, `device` or both"));
  CHECK_THAT(error_text("recovery: {checkpoint: {period: 0 s, bandwidth: 1 Gbps}}\n"),
             contains("must be above zero"));
  CHECK_THAT(error_text("recovery: {exclude_slower_than: 1.5}\n"), contains("`exclude_slower_than`"));
  CHECK_THAT(error_text("recovery: {policy: redundnat}\n"), contains("did you mean `redundant`?"));
}

TEST_CASE("files of a scenario are in its folder and a device has at most one recording") {
  const TemporaryFolder folder;
  folder.write("fleet.csv", "0,4\n");
  const auto entry = [](const std::string& file) {
    return fmt::format("availability: [{{file: {}, format: count}}]\n", file);
  };
  CHECK_THAT(error_text(entry("../fleet.csv"), folder.path()), contains("is outside the folder"));
  CHECK_THAT(error_text(entry("/etc/passwd"), folder.path()), contains("is outside the folder"));
  CHECK_THAT(error_text(entry("none.csv"), folder.path()), contains("s.yaml:2:23: `file`:"));
  CHECK(format_events(read(entry("fleet.csv"), folder.path()).events).empty());
  CHECK_THAT(error_text("availability: [{file: fleet.csv, format: count}, {file: fleet.csv, format: count, "
                        "devices: [b/0:1]}]\n",
                        folder.path()),
             contains("s.yaml:2:50: `b/0:1` is covered by two availability traces"));
  CHECK_THAT(
      error_text(fmt::format("{}events: [{{at: 1 s, device: a/0, leave: true}}]\n", entry("fleet.csv")),
                 folder.path()),
      contains("s.yaml:3:28: `a/0` cannot have `leave` or `join` events"));
}

TEST_CASE("traces have columns and units and references and repeated times use the last line") {
  TraceFormat format;
  format.time = time_unit("ms");
  format.value = rate_unit("Mbps");
  format.column = "up";
  const Trace trace = parse_trace("# a comment\ntime,down,up\n0,1,2\n500,3,4\n500,3,5\n", "t.csv", format);
  REQUIRE(trace.steps.size() == 2);
  CHECK(trace.steps[0].value == 2e6);
  CHECK(trace.steps[1].date == 0.5);
  CHECK(trace.steps[1].value == 5e6);
  CHECK(trace.period == 0);
  CHECK_FALSE(trace.relative);

  format = factors();
  format.reference = 4;
  format.column = std::string("2");
  format.repeat = true;
  format.period = 7;
  const Trace relative = parse_trace("0,1,2\n5,0,4", "t.csv", format);
  CHECK(relative.steps[0].value == 0.25);
  CHECK(relative.steps[1].value == 0);
  CHECK(relative.period == 7);
}

TEST_CASE("invalid traces are reported with their position") {
  CHECK_THAT(trace_error(""), contains("t.csv:1:1: an empty trace"));
  CHECK_THAT(trace_error("time,value\n"), contains("an empty trace"));
  CHECK(trace_error("0,1\n2,1\n1,1\n") == "t.csv:3:1: time goes back: 1 s after 2 s");
  CHECK(trace_error("0,1\n2, -1\n") == "t.csv:2:4: the value must not be negative; found `-1`");
  CHECK(trace_error("0,1\n2,\n") == "t.csv:2:3: the value is missing");
  CHECK(trace_error("0,nan\n") == "t.csv:1:3: the value is missing");
  CHECK_THAT(trace_error("0,inf\n"), contains("t.csv:1:3: the value: expected a decimal number"));
  CHECK(trace_error("0,1\n2\n") == "t.csv:2:1: expected 2 cells; found 1");
  CHECK_THAT(trace_error("-1,1\n"), contains("the time must not be negative"));
  CHECK_THAT(trace_error("0,1,2\n"), contains("select one with `column`"));
  TraceFormat format = factors();
  format.column = "dwon";
  CHECK(trace_error("time,down,up\n0,1,2\n", format) ==
        "t.csv:1:1: there is no column `dwon`; did you mean `down`?");
  format = factors();
  format.repeat = true;
  format.period = 5;
  CHECK_THAT(trace_error("0,1\n5,1\n", format), contains("`repeat` must be longer"));

  const TemporaryFolder folder;
  folder.write("a.csv", "0,1\n");
  const auto entry = [](const std::string& trace) {
    return fmt::format("bandwidth: [{{from: a, to: b, trace: {{file: a.csv, {}}}}}]\n", trace);
  };
  CHECK_THAT(error_text(entry("kind: absolute"), folder.path()), contains("missing key `unit`"));
  CHECK_THAT(error_text(entry("kind: absolute, unit: ms"), folder.path()), contains("`unit`"));
  CHECK_THAT(error_text(entry("kind: relative, unit: Gbps"), folder.path()),
             contains("requires both `unit` and `reference`"));
  CHECK_THAT(error_text(entry("kind: relative, repeat: 0 s"), folder.path()), contains("must be above zero"));
  CHECK_THAT(error_text(entry("kind: relative, repeat: maybe"), folder.path()), contains("`repeat`"));
}

TEST_CASE("nodes take the first free device and excess nodes wait") {
  // At 0 three of four nodes join: device 3 is missing. n4 takes it, n5 waits; n2 leaves device 1 to n5; n6
  // finds none and leaves before one is free.
  const std::string text =
      "0,add,n1\n0,add,n2\n0,add,n3\n1000,add,n4\n2000,add,n5\n2000,add,n6\n3000,remove,n6\n"
      "4000,remove,n2\n5000,remove,n1\n";
  CHECK(format_events(parse_availability(text, "f.csv", recording(false))) ==
        Words{"0 leave 3", "1 join 3", "4 leave 1", "4 join 1", "5 leave 0"});
}

TEST_CASE("if a count falls the last devices leave first") {
  const std::string text = "time_s,alive\n0,9\n10,2\n10,3\n20,0\n";
  CHECK(format_events(parse_availability(text, "f.csv", recording(true))) ==
        Words{"10 leave 3", "10 leave 2", "10 join 2", "20 leave 2", "20 leave 1", "20 leave 0"});
  // No device is available before the first line.
  CHECK(format_events(parse_availability("5,1\n", "f.csv", recording(true))) ==
        Words{"0 leave 0", "0 leave 1", "0 leave 2", "0 leave 3", "5 join 0"});
}

TEST_CASE("invalid availability recordings are reported with their position") {
  const auto bad = [](const std::string& text, bool counts) {
    return error_message([&] { parse_availability(text, "f.csv", recording(counts)); });
  };
  CHECK(bad("0,add,n1\n5,add,n1\n", false) == "f.csv:2:7: `n1` joins, but it is already available");
  CHECK(bad("0,remove,n1\n", false) == "f.csv:1:10: `n1` leaves, but it is not available");
  CHECK(bad("0,ad,n1\n", false) == "f.csv:1:3: unknown `ad`; did you mean `add`?");
  CHECK(bad("0,add\n", false) == "f.csv:1:1: expected 3 cells; found 2");
  CHECK(bad("0,add,\n", false) == "f.csv:1:7: the node is missing");
  CHECK_THAT(bad("", false), contains("f.csv:1:1: an empty trace"));
  CHECK_THAT(bad("time_s,alive\n", true), contains("an empty trace"));
  CHECK(bad("[0, 1]\n", true) == "f.csv:1:1: expected CSV; found JSON");
  CHECK_THAT(bad(R"({"metadata": {"gap_seconds": 600}, "data": [0, 1]})", true),
             contains("a JSON trace of SkyPilot"));
  CHECK(bad("5,1\n4,1\n", true) == "f.csv:2:1: time goes back: 4 s after 5 s");
  CHECK_THAT(bad("0,1.5\n", true), contains("f.csv:1:3: expected a whole number"));
  CHECK_THAT(bad("0,-1\n", true), contains("must not be negative"));
}

TEST_CASE("the two recordings of the same machines agree") {
  if (!has_shared_data()) return;
  // 64 devices hold every node; the counts are those of the events.
  const auto events = shared_recording("p3-trace.csv", false, 64);
  const auto counts = shared_recording("p3_alive.csv", true, 64);
  REQUIRE_FALSE(events.empty());
  CHECK(available_at(events, 0, 64) == 18);
  for (const DeviceEvent& event : events)
    CHECK(available_at(events, event.date, 64) == available_at(counts, event.date, 64));
}

TEST_CASE("a recorded satellite link is a trace") {
  if (!has_shared_data()) return;
  const Scenario scenario = read(
      "bandwidth: [{from: a, to: b, trace: {file: starlink-vehicle.csv, kind: absolute, unit: Gbps, column: "
      "down_gbps, repeat: true}}]\n",
      DTFM_SHARED_DATA);
  CHECK(scenario.traces[0].steps.size() == 4860);  // 4,861 lines, one of which is repeated
  CHECK(scenario.traces[0].steps[2].value == Approx(0.03465e9));
}
