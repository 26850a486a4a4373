#include "core/cluster/host_channels.hpp"
#include "simulator/lowering/gradient_sync.hpp"

#include <array>
#include <cmath>
#include <numeric>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

constexpr double S = 200e6, B = 125e6, a = 0.005;  // bytes, bytes per second, seconds

struct Outcome {
  double makespan = 0, bytes = 0;
  std::vector<double> ends;  // per device
};

Outcome synchronize(const Topology& topology, GradientSync sync, Calibration constants = {}) {
  GraphBuilder builder(topology, constants);
  const std::size_t n = topology.devices.size();
  SyncGroup group{std::vector<int>(n), S, std::vector<int>(n, no_index), 0};
  std::iota(group.devices.begin(), group.devices.end(), 0);
  const std::vector<int> last = add_gradient_sync(builder, sync, group);
  const LabelledGraph lowered = builder.take();
  const Replay result = replay(lowered.graph);
  Outcome outcome{result.makespan, 0, {}};
  for (const Task& task : lowered.graph.tasks)
    if (task.kind == TaskKind::flow) outcome.bytes += task.amount;
  for (const int task : last) {
    REQUIRE(result.tasks[at(task)].state == TaskState::done);
    outcome.ends.push_back(result.tasks[at(task)].finish);
  }
  return outcome;
}

/// Returns n devices of one site, each with access links of B and latency a to the others.
Topology access_link_star(int n) {
  Topology topology = flat_topology({n}, link_of(a, 10 * B), link_of(a, 10 * B));
  for (Device& device : topology.devices) device.uplink = device.downlink = BitsPerSecond(8 * B);
  return topology;
}

}  // namespace

TEST_CASE("a ring takes 2 (n - 1)(a + S / (n B))") {
  for (int n : {2, 3, 5, 8}) {
    const Outcome outcome = synchronize(access_link_star(n), GradientSync::ring);
    CHECK(outcome.makespan == Approx(2 * (n - 1) * (a + S / (n * B))));
    CHECK(outcome.bytes == Approx(2 * (n - 1) * S));
    for (const double end : outcome.ends) CHECK(end == Approx(outcome.makespan));
  }
  CHECK(synchronize(access_link_star(8), GradientSync::ring).makespan == Approx(2.87));  // case c01
}

// Two hosts of two devices; links inside hosts have 2 B. A message takes as long inside a host as in two
// parts between hosts.
TEST_CASE("all devices of a host send the messages of a ring to the next host") {
  Topology topology = flat_topology({4}, link_of(a, B), link_of(a, B));
  auto& rules = std::get<RuleLinks>(topology.links);
  rules.links.push_back(link_of(a, 2 * B));
  rules.same_host(0, 0) = 2;
  for (const std::array hosts : {std::array{0, 0, 1, 1}, std::array{0, 1, 0, 1}, std::array{0, 1, 1, 0}}) {
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      topology.devices[i].host = hosts[i];
      topology.devices[i].host_uplink = unlimited;
    }
    CHECK(synchronize(topology, GradientSync::ring).makespan == Approx(2 * 3 * (a + S / (4 * 2 * B))));
    CHECK(synchronize(topology, GradientSync::ring).bytes == Approx(2 * 4 * 3 * S / 4));
    // Both parts of a message together have B, so that six messages follow one another without a pause.
    for (Device& device : topology.devices) device.host_uplink = BitsPerSecond(8 * B);
    CHECK(synchronize(topology, GradientSync::ring).makespan == Approx(6 * S / (4 * B) + a));
  }
}

TEST_CASE("a message between hosts has as many parts as the smaller of both hosts has devices") {
  Topology topology = flat_topology({5}, link_of(a, B), link_of(a, B));
  for (std::size_t i = 0; i < 5; ++i) topology.devices[i].host = i < 3 ? 0 : 1;
  const HostChannels channels(topology, std::array{4, 0, 3, 1, 2});
  CHECK(channels.order() == std::vector<std::size_t>{0, 2, 1, 3, 4});
  CHECK(channels.between(0, 4) == std::vector<std::pair<int, int>>{{0, 3}, {1, 4}});
  CHECK(channels.between(3, 1) == std::vector<std::pair<int, int>>{{3, 0}, {4, 1}});
  CHECK(channels.between(2, 0) == std::vector<std::pair<int, int>>{{2, 0}});
  HostChannels::IndexPairs pairs;  // the same, by index: of 0 to 4, 3 to 1 and 2 to 0
  channels.add_between(1, 0, pairs);
  channels.add_between(2, 3, pairs);
  channels.add_between(4, 1, pairs);
  CHECK(pairs == HostChannels::IndexPairs{{1, 2}, {3, 0}, {2, 1}, {0, 3}, {4, 1}});
}

TEST_CASE("devices of one link class are paired with those of the same class on the other host") {
  Topology topology = flat_topology({4}, link_of(a, B), link_of(a, B));
  auto& rules = std::get<RuleLinks>(topology.links);
  rules.link_class = {0, 1, 1, 0};
  for (std::size_t i = 0; i < 4; ++i) topology.devices[i].host = i < 2 ? 0 : 1;
  const HostChannels channels(topology, std::array{0, 1, 2, 3});
  CHECK(channels.hosts() == 2);
  CHECK(channels.between(0, 2) == std::vector<std::pair<int, int>>{{0, 3}, {1, 2}});
}

TEST_CASE("sharded-ps takes 2 (a + (n - 1) S / (n B)) with one access link per device") {
  for (int n : {2, 3, 5, 8}) {
    const Outcome outcome = synchronize(access_link_star(n), GradientSync::sharded_ps);
    CHECK(outcome.makespan == Approx(2 * (a + (n - 1) * S / (n * B))));
    CHECK(outcome.bytes == Approx(2 * (n - 1) * S));
  }
  CHECK(synchronize(access_link_star(8), GradientSync::sharded_ps).makespan == Approx(2.81));  // case c03
}

TEST_CASE("sharded-ps takes 2 (a + S / (n B)) if every pair has its own rate") {
  CHECK(synchronize(flat_topology({8}, link_of(a, B), link_of(a, B)), GradientSync::sharded_ps).makespan ==
        Approx(2 * (a + S / (8 * B))));
}

TEST_CASE("a central parameter server among the devices takes 2 (a + (n - 1) S / B)") {
  for (int n : {2, 5, 8}) {
    const Outcome outcome = synchronize(access_link_star(n), GradientSync::central_ps);
    CHECK(outcome.makespan == Approx(2 * (a + (n - 1) * S / B)));
    CHECK(outcome.bytes == Approx(2 * (n - 1) * S));
    CHECK(outcome.ends[0] == Approx(outcome.makespan / 2));  // the server is done first
  }
}

TEST_CASE("a binomial tree takes 2 log2 n (a + S / B)") {
  for (int n : {2, 4, 8, 16}) {
    const Outcome outcome = synchronize(access_link_star(n), GradientSync::tree);
    CHECK(outcome.makespan == Approx(2 * std::log2(n) * (a + S / B)));
    CHECK(outcome.bytes == Approx(2 * (n - 1) * S));
  }
  // Two leaves send to the root at once, a + 2 S / B; it sends to them one after the other, 2 (a + S / B).
  CHECK(synchronize(access_link_star(3), GradientSync::tree).makespan == Approx(3 * a + 4 * S / B));
  for (int n : {5, 6, 7})
    CHECK(synchronize(access_link_star(n), GradientSync::tree).makespan <= 2 * 3 * (a + S / B));
}

// t sites of k devices, all rates per flow. Inside a site, each of k - 1 flows to an owner has its own rate.
TEST_CASE("hierarchical uses shards inside the sites and rings across") {
  const double W = 10e6, far = 0.1;
  for (int t : {2, 3})
    for (int k : {1, 2, 4}) {
      CAPTURE(t, k);
      const Topology topology = flat_topology(std::vector<int>(at(t), k), link_of(a, B), link_of(far, W));
      const double inside = k > 1 ? 2 * (a + S / k / B) : 0, across = 2 * (t - 1) * (far + S / (k * t * W));
      CHECK(synchronize(topology, GradientSync::hierarchical).makespan == Approx(inside + across));
    }
  const Topology one = flat_topology({8}, link_of(a, B), link_of(far, W));
  CHECK(synchronize(one, GradientSync::hierarchical).makespan ==
        Approx(synchronize(one, GradientSync::sharded_ps).makespan));
}

// Sites of 3 and 2: two shards of S / 2. Bytes inside a site: every device except a shard's owner sends it
// and gets it back, 2 (2 + 1) S / 2 · 2 shards. Across: a ring of two per shard, 2 · 2 · S / 4 · 2 shards.
TEST_CASE("hierarchical with sites of unequal size has as many shards as the smallest") {
  const Outcome outcome =
      synchronize(flat_topology({3, 2}, link_of(a, B), link_of(a, B)), GradientSync::hierarchical);
  CHECK(outcome.bytes == Approx(6 * S + 2 * S));
  for (const double end : outcome.ends) CHECK(end > 0);
}

TEST_CASE("every message pays overhead and every byte pays for efficiency") {
  Calibration constants;
  constants.message_overhead_s = 0.25;
  constants.network_efficiency = 0.5;
  CHECK(synchronize(access_link_star(4), GradientSync::ring, constants).makespan ==
        Approx(2 * 3 * (0.25 + a + S / (4 * B * 0.5))));
}

// A ring of four devices has 2 · 3 consecutive messages of S / 4, each of which is doubled.
TEST_CASE("sync efficiency increases the bytes of gradient synchronization only") {
  Calibration constants;
  constants.sync_efficiency = 0.5;
  const Outcome outcome = synchronize(access_link_star(4), GradientSync::ring, constants);
  CHECK(outcome.makespan == Approx(2 * 3 * (a + S / (4 * B * 0.5))));
  CHECK(outcome.bytes == Approx(2 * synchronize(access_link_star(4), GradientSync::ring).bytes));
}
