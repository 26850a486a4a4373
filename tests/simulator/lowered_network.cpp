#include "simulator/lowering/lowered_network.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

using Kind = LinkRole::Kind;

/// Returns the kinds of the links of a route in order.
std::vector<Kind> kinds(const TaskGraph& graph, const LoweredNetwork& network, int route) {
  std::vector<Kind> kinds;
  for (const int link : graph.routes[at(route)].links) kinds.push_back(network.roles()[at(link)].kind);
  return kinds;
}

struct Lowered {
  explicit Lowered(Topology of) : topology(std::move(of)), network(topology, constants, graph) {}
  Topology topology;
  Calibration constants;
  TaskGraph graph;
  LoweredNetwork network;

  int link(int from, int to, Kind kind) {
    for (const int link : graph.routes[at(network.route(from, to))].links)
      if (network.roles()[at(link)].kind == kind) return link;
    return no_index;
  }
};

const Link near = link_of(0.001, 1e9), far = link_of(0.05, 1e8);

}  // namespace

TEST_CASE("a route without constraints is one fat pipe with the rate and latency of the pair") {
  Lowered lowered(flat_topology({2, 2}, near, far));
  CHECK(lowered.graph.hosts.size() == 4);
  const int route = lowered.network.route(1, 2);
  REQUIRE(kinds(lowered.graph, lowered.network, route) == std::vector{Kind::flow});
  const GraphLink& link = lowered.graph.links[at(lowered.graph.routes[at(route)].links[0])];
  CHECK(link.sharing == Sharing::fatpipe);
  CHECK(link.bandwidth == Approx(1e8));
  CHECK(link.latency == 0.05);
  CHECK(lowered.network.roles().back().from == 1);
  CHECK(lowered.network.roles().back().to == 2);
}

TEST_CASE("routes are created once on demand") {
  Lowered lowered(flat_topology({1024}, near, far));
  CHECK(lowered.graph.routes.empty());
  const int route = lowered.network.route(0, 1023);
  CHECK(lowered.network.route(0, 1023) == route);
  CHECK(lowered.network.route(1023, 0) != route);
  CHECK(lowered.graph.routes.size() == 2);
  CHECK(lowered.graph.links.size() == 2);
}

TEST_CASE("every applicable constraint is a link shared by all routes it applies to") {
  Topology topology = flat_topology({2, 2}, near, far);
  topology.sites[0].uplink = BitsPerSecond(8e8);
  topology.sites[1].downlink = BitsPerSecond(16e8);
  topology.devices[0].uplink = BitsPerSecond(24e8);
  topology.devices[3].downlink = BitsPerSecond(32e8);
  std::get<RuleLinks>(topology.links).links[1].capacity = BitsPerSecond(40e8);
  Lowered lowered(topology);
  CHECK(kinds(lowered.graph, lowered.network, lowered.network.route(0, 3)) ==
        std::vector{Kind::flow, Kind::pair_capacity, Kind::device_uplink, Kind::device_downlink,
                    Kind::site_uplink, Kind::site_downlink});
  // Inside a site, only the device's own uplink applies. In the other direction, neither site has a limit.
  CHECK(kinds(lowered.graph, lowered.network, lowered.network.route(0, 1)) ==
        std::vector{Kind::flow, Kind::device_uplink});
  CHECK(kinds(lowered.graph, lowered.network, lowered.network.route(3, 0)) ==
        std::vector{Kind::flow, Kind::pair_capacity});
  CHECK(lowered.link(0, 3, Kind::pair_capacity) == lowered.link(1, 2, Kind::pair_capacity));
  CHECK(lowered.link(0, 3, Kind::pair_capacity) != lowered.link(3, 0, Kind::pair_capacity));
  CHECK(lowered.link(0, 3, Kind::site_uplink) == lowered.link(1, 2, Kind::site_uplink));
  CHECK(lowered.link(0, 3, Kind::device_uplink) == lowered.link(0, 1, Kind::device_uplink));
  CHECK(lowered.graph.links[at(lowered.link(0, 3, Kind::pair_capacity))].bandwidth == Approx(5e8));
  CHECK(lowered.graph.links[at(lowered.link(0, 3, Kind::site_uplink))].bandwidth == Approx(1e8));
  CHECK(lowered.graph.links[at(lowered.link(0, 3, Kind::device_downlink))].bandwidth == Approx(4e8));
  for (const GraphLink& link : lowered.graph.links)
    CHECK((link.sharing == Sharing::fatpipe) == (link.latency > 0));
}

// Topologies whose pairs of devices have the same links are equal, whichever entries the links come from.
TEST_CASE("a capacity belongs to the pair of sites whatever the entry of a flow") {
  Topology topology = flat_topology({2, 1}, near, far);
  auto& rules = std::get<RuleLinks>(topology.links);
  rules.links[1].capacity = BitsPerSecond(40e8);
  // A port for each device; the flow 1 → 2 has an entry of its own, first with and then without a capacity.
  rules.link_class = {0, 1, 2};
  rules.links.push_back(rules.links[1]);
  rules.table = Eigen::MatrixXi(3, 3);
  rules.table << -1, 0, 1, 0, -1, 2, 1, 1, -1;
  rules.same_host = Eigen::MatrixXi::Constant(3, 3, -1);
  for (const BitsPerSecond capacity : {BitsPerSecond(40e8), unlimited, BitsPerSecond(24e8)}) {
    rules.links[2].capacity = capacity;
    Lowered lowered(topology);
    const int shared = lowered.link(0, 2, Kind::pair_capacity);
    REQUIRE(shared != no_index);
    CHECK(lowered.link(1, 2, Kind::pair_capacity) == shared);
    CHECK(lowered.graph.links[at(shared)].bandwidth == Approx(std::min(5e8, capacity.value() / 8)));
    CHECK(lowered.link(0, 1, Kind::pair_capacity) == no_index);
  }
}

// The capacity is that of the sites 1 → 0, whose devices have left; sites 0 and 2 still have devices.
TEST_CASE("a capacity of a site without devices applies to no route") {
  Topology topology = flat_topology({1, 1, 1}, near, far);
  auto& rules = std::get<RuleLinks>(topology.links);
  rules.links.push_back(rules.links[1]);
  rules.links.back().capacity = BitsPerSecond(1e6);
  rules.table(1, 0) = 2;
  rules.table(1, 2) = 2;
  REQUIRE(Lowered(topology).link(1, 0, Kind::pair_capacity) != no_index);
  topology.devices.erase(topology.devices.begin() + 1);
  rules.link_class.erase(rules.link_class.begin() + 1);
  Lowered lowered(topology);
  CHECK(lowered.link(0, 1, Kind::pair_capacity) == no_index);
  CHECK(lowered.link(1, 0, Kind::pair_capacity) == no_index);
}

TEST_CASE("traffic between two GPUs of a host does not use its network") {
  Topology topology = flat_topology({2, 1}, near, far);
  topology.devices[1].host = topology.devices[0].host;
  std::get<RuleLinks>(topology.links).same_host(0, 0) = 0;
  topology.devices[0].uplink = BitsPerSecond(8e8);
  Lowered lowered(topology);
  CHECK(lowered.link(0, 1, Kind::device_uplink) == no_index);
  CHECK(lowered.link(0, 2, Kind::device_uplink) != no_index);
}

// 1 Gbps, 1.25e8 bytes per second, for what the two GPUs of the first host send to two others: 1e8 bytes each
// take 1.6 s, although each alone would have 1e9 bytes per second. Inside the host they take 0.1 s. The
// downlink is 2 Gbps.
TEST_CASE("the GPUs of a host share its network card") {
  Topology topology = flat_topology({4}, link_of(0, 1e9), far);
  for (std::size_t i = 0; i < 4; ++i) topology.devices[i].host = std::vector{0, 0, 1, 2}[i];
  std::get<RuleLinks>(topology.links).same_host(0, 0) = 0;
  for (const std::size_t i : {0U, 1U}) {
    topology.devices[i].host_uplink = BitsPerSecond(1e9);
    topology.devices[i].host_downlink = BitsPerSecond(2e9);
  }
  const auto check_times = [&](const std::vector<std::pair<int, int>>& messages,
                               const std::vector<double>& expected) {
    Lowered lowered(topology);
    for (const auto& [from, to] : messages) {
      Task task;
      task.kind = TaskKind::flow;
      task.host = from;
      task.destination = to;
      task.route = lowered.network.route(from, to);
      task.amount = 1e8;
      lowered.graph.tasks.push_back(task);
    }
    const Replay result = replay(lowered.graph);
    for (std::size_t i = 0; i < messages.size(); ++i) CHECK(result.tasks[i].finish == Approx(expected[i]));
  };
  check_times({{0, 2}, {1, 3}, {0, 1}}, {1.6, 1.6, 0.1});
  check_times({{2, 0}, {3, 1}, {0, 2}}, {0.8, 0.8, 0.8});
  Lowered lowered(topology);
  CHECK(kinds(lowered.graph, lowered.network, lowered.network.route(0, 2)) ==
        std::vector{Kind::flow, Kind::host_uplink});
  CHECK(kinds(lowered.graph, lowered.network, lowered.network.route(3, 1)) ==
        std::vector{Kind::flow, Kind::host_downlink});
  CHECK(lowered.link(0, 2, Kind::host_uplink) == lowered.link(1, 3, Kind::host_uplink));
  CHECK(lowered.link(0, 1, Kind::host_uplink) == no_index);
}

TEST_CASE("a sender shares its rate among all peers of an entry and has one rate per entry") {
  Topology topology = flat_topology({3, 2}, near, far);
  for (Link& link : std::get<RuleLinks>(topology.links).links) link.shared_by_sender = true;
  Lowered lowered(topology);
  const auto sender = [&](int from, int to) { return lowered.link(from, to, Kind::sender); };
  CHECK(sender(0, 1) == sender(0, 2));
  CHECK(sender(0, 3) == sender(0, 4));
  CHECK(sender(0, 1) != sender(0, 3));
  CHECK(sender(0, 3) != sender(1, 3));
  CHECK(lowered.graph.links[at(sender(0, 3))].bandwidth == Approx(1e8));
  CHECK(lowered.graph.links[at(sender(0, 3))].sharing == Sharing::shared);
}

// Round-trip times of 0.05 + 0.35 s and 0.05 + 0.05 s: rates of 1 to 4 on the shared 5e7 bytes per second.
// The second flow has 1.6e8 bytes at 4e7, 4 s. By then the first has sent 4e7 bytes, and it sends the rest at
// the full rate.
TEST_CASE("a flow is weighted by its round-trip time") {
  Topology topology = flat_topology({1, 1, 1}, near, far);
  topology.fairness = Fairness::rtt;
  auto& rules = std::get<RuleLinks>(topology.links);
  rules.links.push_back(link_of(0.35, 1e8));
  rules.table(1, 0) = 2;
  topology.devices[0].uplink = BitsPerSecond(4e8);
  Lowered lowered(topology);
  for (const int to : {1, 2}) {
    Task task;
    task.kind = TaskKind::flow;
    task.host = 0;
    task.destination = to;
    task.route = lowered.network.route(0, to);
    task.amount = 1.6e8;
    lowered.graph.tasks.push_back(task);
  }
  const Replay result = replay(lowered.graph);
  CHECK(result.tasks[1].finish == Approx(0.05 + 4));
  CHECK(result.tasks[0].finish == Approx(0.05 + 4 + (1.6e8 - 4e7) / 5e7));
}

TEST_CASE("fairness and network efficiency are set in the model of the graph") {
  Topology topology = flat_topology({2}, near, far);
  topology.fairness = Fairness::rtt;
  Calibration constants;
  constants.network_efficiency = 0.9;
  TaskGraph graph;
  const LoweredNetwork network(topology, constants, graph);
  CHECK(graph.model.weigh_by_latency);
  CHECK(graph.model.bandwidth_factor == 0.9);
  CHECK_FALSE(Lowered(flat_topology({2}, near, far)).graph.model.weigh_by_latency);
}
