#include "simulator/run/scenario_profiles.hpp"

#include <limits>
#include <optional>
#include <vector>

#include "simulator/run/trace_cursor.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Returns two devices at each of two sites, with 100 bytes per second from device to device.
Topology two_sites() {
  return flat_topology({2, 2}, link_of(0.25, 100), link_of(0.5, 100));
}

/// Returns one message from every device to every other.
LabelledGraph all_pairs(const Topology& topology) {
  const Calibration constants;
  GraphBuilder builder(topology, constants);
  for (int from = 0; from < topology.size(); ++from)
    for (int to = 0; to < topology.size(); ++to)
      if (from != to) builder.send(builder.channel(from, to, Activity::fetch), 1, {}, {});
  return builder.take();
}

std::vector<bool> only(std::vector<int> devices) {
  std::vector<bool> result(4);
  for (const int device : devices) result[at(device)] = true;
  return result;
}

LinkTrace bandwidth_between(const std::vector<int>& from, const std::vector<int>& to, int trace) {
  return {LinkTrace::Quantity::bandwidth, only(from), only(to), false, trace};
}

/// Returns the value of a quantity of link `link` at `date` according to its profiles, or nothing if none
/// defines it.
std::optional<double> value_at(const std::vector<Profile>& profiles, int link, double date,
                               Profile::Quantity quantity = Profile::Quantity::bandwidth) {
  std::optional<double> value;
  double since = -1;
  for (const Profile& profile : profiles)
    for (const Profile::Target& target : profile.targets)
      if (profile.quantity == quantity && target.index == link)
        for (const Profile::Step& step : profile.steps)
          if (step.date <= date && step.date > since) {
            since = step.date;
            value = target.scale * step.value;
          }
  return value;
}

int link_of_kind(const LabelledGraph& graph, LinkRole::Kind kind, int from, int to = no_index) {
  for (int i = 0; at(i) < graph.links.size(); ++i) {
    const LinkRole& role = graph.links[at(i)];
    if (role.kind == kind && role.from == from && (to == no_index || role.to == to)) return i;
  }
  return no_index;
}
using Kind = LinkRole::Kind;

}  // namespace

TEST_CASE("a cursor steps through a trace and its repetitions") {
  const Trace trace{{{1, 10}, {3, 30}}, 4, true};  // 10 at 1, 30 at 3, 10 at 5, 30 at 7, …
  CHECK_FALSE(TraceCursor(trace, 0.5).value().has_value());
  CHECK(TraceCursor(trace, 0.5).next_date() == 1);
  CHECK(TraceCursor(trace, 1).value() == 10.0);
  CHECK(TraceCursor(trace, 3.5).value() == 30.0);
  CHECK(TraceCursor(trace, 4.5).value() == 30.0);  // until the first value is repeated
  CHECK(TraceCursor(trace, 4.5).next_date() == 5);
  CHECK(TraceCursor(trace, 4001).value() == 10.0);
  TraceCursor cursor(trace, 0);
  for (const double date : {1.0, 3.0, 5.0, 7.0, 9.0}) {
    CHECK(cursor.next_date() == date);
    cursor.advance();
  }
  const Trace once{{{0, 5}}, 0, true};
  CHECK(TraceCursor(once, 9).value() == 5.0);
  CHECK(TraceCursor(once, 9).next_date() == infinity);
  // 0.1 s is not exactly representable: from every start, the next date must be later.
  const Trace short_rounds{{{0, 1}, {0.07, 2}}, 0.1, true};
  for (int i = 0; i < 10'000; ++i) {
    const double date = 0.01 * i;
    const TraceCursor at_date(short_rounds, date);
    REQUIRE(at_date.next_date() > date);
    REQUIRE(at_date.next_date() - date < 0.0700001);
    REQUIRE(at_date.value().has_value());
  }
}

TEST_CASE("traces affect the links of their devices only") {
  const Topology topology = two_sites();
  const LabelledGraph graph = all_pairs(topology);
  Scenario scenario;
  scenario.traces = {{{{2, 0.5}}, 0, true}};
  scenario.link_traces = {bandwidth_between({0}, {2, 3}, 0)};
  const auto profiles = ScenarioProfiles(scenario, topology, graph).between(0, 10);
  for (int from = 0; from < 4; ++from)
    for (int to = 0; to < 4; ++to) {
      if (from == to) continue;
      const auto value = value_at(profiles, link_of_kind(graph, Kind::flow, from, to), 5);
      CHECK(value.has_value() == (from == 0 && to >= 2));
      if (value) CHECK(*value == 50);
    }
  scenario.link_traces[0].both_directions = true;
  const auto both = ScenarioProfiles(scenario, topology, graph).between(0, 10);
  CHECK(value_at(both, link_of_kind(graph, Kind::flow, 3, 0), 5) == 50.0);
  CHECK_FALSE(value_at(both, link_of_kind(graph, Kind::flow, 3, 1), 5).has_value());
}

TEST_CASE("relative traces multiply and an absolute trace replaces values from its first date on") {
  const Topology topology = two_sites();
  const LabelledGraph graph = all_pairs(topology);
  Scenario scenario;
  scenario.traces = {{{{0, 0.5}, {4, 0.25}}, 0, true},
                     {{{1, 0.1}, {2, 1}}, 3, true},  // 0.1 in [1, 2), 1 in [2, 4), 0.1 in [4, 5), …
                     {{{6, 8000}}, 0, false}};       // bit/s
  scenario.link_traces = {bandwidth_between({0}, {1}, 0), bandwidth_between({0}, {1}, 1),
                          bandwidth_between({0}, {1}, 2)};
  const ScenarioProfiles profiles(scenario, topology, graph);
  const int link = link_of_kind(graph, Kind::flow, 0, 1);
  const auto whole = profiles.between(0, 20);
  CHECK(value_at(whole, link, 0.5) == Approx(50));           // 100 · 0.5; the second trace has not begun
  CHECK(value_at(whole, link, 1.5) == Approx(5));            // · 0.1
  CHECK(value_at(whole, link, 3) == Approx(50));             // · 1
  CHECK(value_at(whole, link, 4.5) == Approx(2.5));          // 100 · 0.25 · 0.1
  CHECK(value_at(whole, link, 6.5) == Approx(1000 * 0.25));  // 8,000 bit/s
  CHECK(value_at(whole, link, 7.5) == Approx(1000 * 0.25 * 0.1));
  // Every window has the same values as the whole.
  for (double start = 0; start < 12; start += 0.75) {
    const auto window = profiles.between(start, start + 2);
    for (double date = start; date <= start + 2; date += 0.25)
      CHECK(value_at(window, link, date) == value_at(whole, link, date));
  }
  CHECK(profiles.changes_after(1e6));  // the second trace never ends
}

TEST_CASE("traces apply to latency and shared links and speeds") {
  Topology topology = two_sites();
  auto& links = std::get<RuleLinks>(topology.links).links;
  links[0].shared_by_sender = true;
  links[1].capacity = BitsPerSecond(8 * 300);
  const LabelledGraph graph = all_pairs(topology);
  const int sender = link_of_kind(graph, Kind::sender, 0),
            pair = link_of_kind(graph, Kind::pair_capacity, 0, 1);
  REQUIRE(sender != no_index);
  REQUIRE(pair != no_index);
  Scenario scenario;
  scenario.traces = {{{{0, 0.5}}, 0, true}, {{{0, 2}}, 0, false}};
  scenario.link_traces = {bandwidth_between({0, 1}, {0, 1, 2, 3}, 0),
                          {LinkTrace::Quantity::latency, only({0}), only({2}), false, 1}};
  scenario.events = {{1, 3, DeviceEvent::Kind::speed, 0.5}, {4, 3, DeviceEvent::Kind::speed, 2}};
  const ScenarioProfiles all(scenario, topology, graph);
  const auto profiles = all.between(2, 5);
  CHECK(value_at(profiles, sender, 3) == 50.0);
  CHECK(value_at(profiles, pair, 3) == 150.0);
  CHECK(value_at(profiles, link_of_kind(graph, Kind::flow, 0, 2), 3, Profile::Quantity::latency) == 2.0);
  CHECK_FALSE(value_at(profiles, sender, 3, Profile::Quantity::latency).has_value());
  CHECK(value_at(profiles, 3, 2, Profile::Quantity::speed) == 0.5);
  CHECK(value_at(profiles, 3, 4, Profile::Quantity::speed) == 2.0);
  CHECK(all.changes_after(3));
  CHECK_FALSE(all.changes_after(4));
  // A trace of some receivers, or of some devices of a site, does not affect what the others share.
  scenario.link_traces = {bandwidth_between({0}, {2, 3}, 0)};
  const auto some = ScenarioProfiles(scenario, topology, graph).between(0, 1);
  CHECK_FALSE(value_at(some, sender, 1).has_value());
  CHECK_FALSE(value_at(some, pair, 1).has_value());
  // An absolute trace gives the rate of a single flow.
  scenario.link_traces = {bandwidth_between({0, 1}, {2, 3}, 1)};
  CHECK_FALSE(value_at(ScenarioProfiles(scenario, topology, graph).between(0, 1), pair, 1).has_value());
}

// The entry to site 1 has the same numbers as the one inside site 0, but is a separate entry with its own
// shared rate.
TEST_CASE("a trace of one entry of a sender affects only the rate shared by that entry") {
  Topology topology = flat_topology({2, 2}, link_of(0.25, 100), link_of(0.25, 100));
  for (Link& link : std::get<RuleLinks>(topology.links).links) link.shared_by_sender = true;
  const Calibration constants;
  GraphBuilder builder(topology, constants);
  builder.send(builder.channel(0, 2, Activity::fetch), 1, {}, {});
  const LabelledGraph graph = builder.take();
  Scenario scenario;
  scenario.traces = {{{{0, 0.5}}, 0, true}};
  const int sender = link_of_kind(graph, Kind::sender, 0);
  const auto at_half = [&](const std::vector<int>& receivers) {
    scenario.link_traces = {bandwidth_between({0}, receivers, 0)};
    return value_at(ScenarioProfiles(scenario, topology, graph).between(0, 1), sender, 1);
  };
  CHECK(at_half({2, 3}) == 50.0);
  CHECK_FALSE(at_half({2}).has_value());
}

TEST_CASE("traces that change endlessly in one window are rejected") {
  const Topology topology = two_sites();
  const LabelledGraph graph = all_pairs(topology);
  Scenario scenario;
  scenario.traces = {{{{0, 1}, {0.5e-6, 2}}, 1e-6, true}};
  scenario.link_traces = {bandwidth_between({0}, {1}, 0)};
  const ScenarioProfiles profiles(scenario, topology, graph);
  CHECK_THAT(error_message([&] { profiles.between(0, 100); }), contains("change too often"));
}
