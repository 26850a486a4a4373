#include "planner/cost/iteration_time/network_cost.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "core/base/rng.hpp"
#include "simulator/lowering/lowered_network.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::sim;

namespace {

constexpr double B = 1e6, a = 0.25;  // bytes per second, seconds

/// Returns devices 0 … 3 at site 0 and 4 … 7 at site 1, two per host, with B inside a site and between sites,
/// and 10 B inside a host.
Topology two_sites() {
  Topology topology = flat_topology({4, 4}, link_of(a, B), link_of(4 * a, B));
  for (int device = 0; device < 8; ++device) topology.devices[at(device)].host = device / 2;
  auto& rules = std::get<RuleLinks>(topology.links);
  rules.links.push_back(link_of(0, 10 * B));
  rules.same_host.diagonal().setConstant(2);
  return topology;
}

std::vector<Link>& links_of(Topology& topology) {
  return std::get<RuleLinks>(topology.links).links;
}

std::set<int> shared(const NetworkCost& network, int from, int to) {
  const SharedPath path = network.shared(from, to);
  return {path.begin(), path.end()};
}

/// Returns seconds per byte of each shared capacity on the path of a message.
std::vector<double> seconds_per_byte(const NetworkCost& network, int from, int to) {
  std::vector<double> seconds;
  for (const int id : shared(network, from, to)) seconds.push_back(network.shared_seconds_per_byte(id));
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

/// Whether messages from `from` to `to` and from `sender` to `receiver` share a capacity.
bool compete(const NetworkCost& network, int from, int to, int sender, int receiver) {
  const std::set<int> one = shared(network, from, to), other = shared(network, sender, receiver);
  return std::any_of(one.begin(), one.end(), [&](int id) { return other.count(id) > 0; });
}

}  // namespace

TEST_CASE("a message takes overhead plus bytes over rate plus latency") {
  const Topology topology = two_sites();
  const NetworkCost network(topology, {1, 0.5, 0.8, 0});
  CHECK(network.shared_count() == 0);
  CHECK(network.message(0, 2).total_s(3 * B) == Approx(0.5 + 3 / 0.8 + a));
  CHECK(network.message(0, 2).occupancy_s(3 * B) == Approx(0.5 + 3 / 0.8));
  CHECK(network.message(0, 4).total_s(0) == Approx(0.5 + 4 * a));
  CHECK(network.message(0, 1).total_s(3 * B) == Approx(0.3 / 0.8));  // inside a host: no overhead
  CHECK(network.message(3, 3).total_s(3 * B) == 0);
}

TEST_CASE("a sender shares the rate of an entry among its receivers") {
  Topology topology = two_sites();
  links_of(topology)[1].shared_by_sender = true;
  const NetworkCost network(topology, {});
  CHECK(compete(network, 0, 4, 0, 7));
  CHECK_FALSE(compete(network, 0, 4, 1, 4));
  CHECK_FALSE(compete(network, 0, 4, 0, 2));
  CHECK(seconds_per_byte(network, 0, 4) == std::vector{1 / B});
  // With a single receiver nothing is shared.
  Topology pair = flat_topology({1, 1}, link_of(a, B), link_of(a, B));
  links_of(pair)[1].shared_by_sender = true;
  CHECK(NetworkCost(pair, {}).shared_count() == 0);
}

TEST_CASE("pairs of sites and hosts have separate shared capacities") {
  Topology topology = two_sites();
  links_of(topology)[1].capacity = BitsPerSecond(8 * 2 * B);
  links_of(topology)[2].capacity = BitsPerSecond(8 * 5 * B);
  const NetworkCost network(topology, {1, 0, 0.5, 0});
  CHECK(compete(network, 0, 4, 3, 7));
  CHECK_FALSE(compete(network, 0, 4, 4, 0));
  CHECK(compete(network, 0, 1, 2, 3));
  CHECK_FALSE(compete(network, 0, 1, 4, 5));
  CHECK(shared(network, 0, 2).empty());
  CHECK(seconds_per_byte(network, 0, 4) == std::vector{1 / (2 * B * 0.5)});
  CHECK(network.message(0, 4).seconds_per_byte == Approx(1 / (B * 0.5)));
  CHECK(network.message(0, 1).seconds_per_byte == Approx(1 / (5 * B * 0.5)));  // slower than a single flow
}

TEST_CASE("uplinks and downlinks of devices and hosts apply between hosts") {
  Topology topology = two_sites();
  topology.devices[0].uplink = BitsPerSecond(8 * B / 2);
  topology.devices[4].downlink = BitsPerSecond(8 * B / 4);
  for (const int device : {2, 3}) topology.devices[at(device)].host_uplink = BitsPerSecond(8 * 3 * B);
  for (const int device : {6, 7}) topology.devices[at(device)].host_downlink = BitsPerSecond(8 * 3 * B);
  const NetworkCost network(topology, {});
  CHECK(network.shared_count() == 4);
  CHECK(compete(network, 0, 2, 0, 5));
  CHECK(compete(network, 1, 4, 2, 4));
  CHECK(compete(network, 2, 0, 3, 5));
  CHECK(compete(network, 0, 6, 1, 7));
  CHECK(shared(network, 0, 1).empty());  // same host
  CHECK(shared(network, 2, 3).empty());
  CHECK(shared(network, 4, 0).empty());  // the opposite direction
  CHECK(network.message(0, 4).seconds_per_byte == Approx(4 / B));
  CHECK(network.message(0, 2).seconds_per_byte == Approx(2 / B));
  CHECK(network.message(0, 1).seconds_per_byte == Approx(0.1 / B));
}

TEST_CASE("uplinks and downlinks of sites apply between sites") {
  Topology topology = two_sites();
  topology.sites[0].uplink = BitsPerSecond(8 * 2 * B);
  topology.sites[0].downlink = BitsPerSecond(8 * B / 2);
  const NetworkCost network(topology, {});
  CHECK(network.shared_count() == 2);
  CHECK(compete(network, 0, 4, 3, 7));
  CHECK(compete(network, 4, 0, 7, 3));
  CHECK_FALSE(compete(network, 0, 4, 4, 0));
  CHECK(shared(network, 0, 2).empty());
  CHECK(network.message(4, 0).seconds_per_byte == Approx(2 / B));
}

// The capacities that messages share determine their contention: the capacities that any two of them have in
// common must correspond to the links in the simulator's routes, as must the narrowest one on the path. The
// simulator has a link for each sender even if there is a single receiver; here there is none, because it
// limits the rate like the flow's own bandwidth.
TEST_CASE("shared capacities equal those of the simulator's routes on random topologies") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(1, seed);
    Topology topology = two_sites();
    const auto maybe = [&] { return rng.below(2) == 0; };
    const auto rate = [&] { return BitsPerSecond(8 * B * (0.2 + 3 * rng.uniform())); };
    for (Link& link : links_of(topology)) {
      link.shared_by_sender = maybe();
      if (maybe()) link.capacity = rate();
    }
    links_of(topology)[2].shared_by_sender = false;  // a sender has only one receiver
    for (Site& site : topology.sites) {
      if (maybe()) site.uplink = rate();
      if (maybe()) site.downlink = rate();
    }
    for (std::size_t device = 0; device < 8; ++device) {
      Device& it = topology.devices[device];
      if (maybe()) it.uplink = rate();
      if (maybe()) it.downlink = rate();
      if (device % 2 == 0 && maybe()) it.host_uplink = topology.devices[device + 1].host_uplink = rate();
      if (device % 2 == 0 && maybe()) it.host_downlink = topology.devices[device + 1].host_downlink = rate();
    }
    const Calibration constants{1, 0, 0.9, 0};
    const NetworkCost network(topology, constants);
    TaskGraph graph;
    LoweredNetwork lowered(topology, constants, graph);
    const auto links = [&](int from, int to) {  // from the simulator, without the flow's own link
      const std::vector<int> all = graph.routes[at(lowered.route(from, to))].links;
      return std::set<int>(all.begin() + 1, all.end());
    };
    for (int trial = 0; trial < 60; ++trial) {
      int of[4];
      for (int& device : of) device = static_cast<int>(rng.below(8));
      if (of[0] == of[1] || of[2] == of[3]) continue;
      CAPTURE(of[0], of[1], of[2], of[3]);
      const std::set<int> mine = shared(network, of[0], of[1]), theirs = links(of[0], of[1]);
      CHECK(mine.size() == theirs.size());
      const auto in_common = [](const std::set<int>& one, const std::set<int>& other) {
        return std::count_if(one.begin(), one.end(), [&](int id) { return other.count(id) > 0; });
      };
      CHECK(in_common(mine, shared(network, of[2], of[3])) == in_common(theirs, links(of[2], of[3])));
      double narrowest = topology.link(of[0], of[1]).bandwidth.value() / 8;
      for (const int id : theirs) narrowest = std::min(narrowest, graph.links[at(id)].bandwidth);
      CHECK(network.message(of[0], of[1]).seconds_per_byte == Approx(1 / (narrowest * 0.9)));
    }
  }
}

TEST_CASE("a message between hosts takes the handshakes and at most the window of its transport") {
  Topology topology = flat_topology({2}, link_of(0.1, 1e6), link_of(0.1, 1e6));
  CHECK(NetworkCost(topology, Calibration()).message(0, 1) == MessageCost{0, 1e-6, 0.1});
  topology.transport = transports[1];
  REQUIRE(topology.transport->library == "mpi");
  CHECK(NetworkCost(topology, Calibration()).message(0, 1) == MessageCost{0.2, 1e-6, 0.1});
  topology.transport->window = Bytes(100e3);  // in each round trip of 0.2 s
  CHECK(NetworkCost(topology, Calibration()).message(0, 1) == MessageCost{0.2, 2e-6, 0.1});
  for (Device& device : topology.devices) device.host = 0;
  std::get<RuleLinks>(topology.links).same_host(0, 0) = 0;
  CHECK(NetworkCost(topology, Calibration()).message(0, 1) == MessageCost{0, 1e-6, 0.1});
}
