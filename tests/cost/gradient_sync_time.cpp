#include "planner/cost/iteration_time/gradient_sync_time.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "core/base/rng.hpp"
#include "simulator/lowering/gradient_sync.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/random_networks.hpp"
#include "tests/support/random_problem.hpp"
#include "tests/support/small_problems.hpp"
#include "tests/support/stage_groups.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::sim;

namespace {

constexpr double S = 200e6, B = 125e6, a = 0.005;  // bytes, bytes per second, seconds

const std::vector<GradientSync> syncs = [] {
  std::vector<GradientSync> all;
  for (const GradientSyncTraits& it : gradient_sync_table())
    if (it.messages) all.push_back(it.kind);
  return all;
}();

std::vector<int> all_of(const Topology& topology) {
  std::vector<int> devices(topology.devices.size());
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

SyncTime estimated(const Topology& topology, GradientSync sync, const std::vector<int>& devices,
                   const Calibration& constants = {}, Collective part = Collective::all_reduce,
                   double pieces = 0) {
  const NetworkCost network(topology, constants);
  ReplicaGroup group{devices, std::vector<int>(devices.size(), 1), S};
  group.pieces = pieces;
  return gradient_sync_time(sync, topology, network, {&group, 1}, part);
}

double last_end(const Topology& topology, GradientSync sync, const Calibration& constants = {}) {
  return estimated(topology, sync, all_of(topology), constants).seconds;
}

double simulated(const Topology& topology, GradientSync sync, const std::vector<int>& devices,
                 const Calibration& constants = {}, Collective part = Collective::all_reduce,
                 double pieces = 0) {
  GraphBuilder builder(topology, constants);
  const std::vector<int> last = add_gradient_sync(
      builder, sync,
      {devices, S, std::vector<int>(devices.size(), no_index), 0, no_index, {part}, false, pieces});
  const Replay result = replay(builder.take().graph);
  double end_s = 0;
  for (const int task : last)  // none: nothing was sent
    if (task != no_index) end_s = std::max(end_s, result.tasks[at(task)].finish);
  return end_s;
}

/// Returns n devices of one site, each with access links of B and latency a to the others.
Topology access_link_star(int n) {
  Topology topology = flat_topology({n}, link_of(a, 10 * B), link_of(a, 10 * B));
  for (Device& device : topology.devices) device.uplink = device.downlink = BitsPerSecond(8 * B);
  return topology;
}

/// Returns some of the devices in random order.
std::vector<int> random_group(Rng& rng, int devices) {
  std::vector<int> group(at(devices));
  std::iota(group.begin(), group.end(), 0);
  rng.shuffle(std::span<int>(group));
  group.resize(2 + rng.below(static_cast<std::uint32_t>(devices - 1)));
  return group;
}

}  // namespace

TEST_CASE("all algorithms have closed formulas if every pair has a link of its own") {
  for (const int n : {2, 3, 5, 8}) {
    CAPTURE(n);
    const Topology topology = flat_topology({n}, link_of(a, B), link_of(a, B));
    const double part = S / (n * B);
    CHECK(last_end(topology, GradientSync::sharded_ps) == Approx(2 * (a + part)));
    CHECK(last_end(topology, GradientSync::central_ps) == Approx(2 * (a + S / B)));
    CHECK(last_end(topology, GradientSync::ring) == Approx(2 * (n - 1) * (a + part)));
    CHECK(last_end(topology, GradientSync::hierarchical) == Approx(2 * (a + part)));
  }
  for (const int n : {2, 4, 8, 16})
    CHECK(last_end(flat_topology({n}, link_of(a, B), link_of(a, B)), GradientSync::tree) ==
          Approx(2 * std::log2(n) * (a + S / B)));
}

// n − 1 messages at a time leave every device, or arrive at the first.
TEST_CASE("all algorithms have closed formulas if every device has one access link") {
  for (const int n : {2, 3, 5, 8}) {
    CAPTURE(n);
    const Topology topology = access_link_star(n);
    CHECK(last_end(topology, GradientSync::sharded_ps) == Approx(2 * (a + (n - 1) * S / (n * B))));
    CHECK(last_end(topology, GradientSync::central_ps) == Approx(2 * (a + (n - 1) * S / B)));
    CHECK(last_end(topology, GradientSync::ring) == Approx(2 * (n - 1) * (a + S / (n * B))));
  }
  for (const int n : {2, 4, 8, 16})
    CHECK(last_end(access_link_star(n), GradientSync::tree) == Approx(2 * std::log2(n) * (a + S / B)));
  // Two leaves send to the root at once, a + 2 S / B; it sends to them one after the other, 2 (a + S / B).
  CHECK(last_end(access_link_star(3), GradientSync::tree) == Approx(3 * a + 4 * S / B));
}

// t sites of k devices: 2 (a + S / (k B)) inside, 2 (t − 1)(a' + S / (k t W)) across.
TEST_CASE("hierarchical uses shards inside the sites and rings across") {
  const double W = 10e6, far = 0.1;
  for (const int t : {2, 3})
    for (const int k : {1, 2, 4}) {
      CAPTURE(t, k);
      const Topology topology = flat_topology(std::vector<int>(at(t), k), link_of(a, B), link_of(far, W));
      const double inside = k > 1 ? 2 * (a + S / k / B) : 0, across = 2 * (t - 1) * (far + S / (k * t * W));
      CHECK(last_end(topology, GradientSync::hierarchical) == Approx(inside + across));
    }
}

// t sites of k devices: 2 (k − 1)(a + S / (k B)) inside, 2 (t − 1)(a' + S / (k t W)) across. Of more than 32
// devices, times are not exact in general, but on equal links they are.
TEST_CASE("hierarchical-ring uses rings inside the sites and across") {
  const double W = 10e6, far = 0.1;
  for (const int t : {1, 2, 3})
    for (const int k : {1, 2, 4, 40}) {
      if (t * k == 1) continue;
      CAPTURE(t, k);
      const Topology topology = flat_topology(std::vector<int>(at(t), k), link_of(a, B), link_of(far, W));
      const double seconds = 2 * (k - 1) * (a + S / k / B) + 2 * (t - 1) * (far + S / (k * t * W));
      CHECK(last_end(topology, GradientSync::hierarchical_ring) == Approx(seconds));
      CHECK(simulated(topology, GradientSync::hierarchical_ring, all_of(topology)) == Approx(seconds));
    }
}

// A half has n − 1 rounds, also with more than 32 devices, whose rounds are not evaluated one by one.
TEST_CASE("a reduce-scatter around a large ring takes half the time of its all-reduce") {
  for (const int n : {8, 32, 33, 100}) {
    const Topology topology = flat_topology({n}, link_of(a, B), link_of(a, B));
    const ReplicaGroup group{all_of(topology), std::vector<int>(at(n), 1), S};
    CHECK(gradient_sync_time(GradientSync::ring, topology, NetworkCost(topology, {}), {&group, 1},
                             Collective::reduce_scatter)
              .seconds == Approx((n - 1) * (a + S / (n * B))));
  }
}

// Two hosts of two devices with an uplink each, B. In a ring of 4, each of 2 · 3 rounds of S / 4 leaves a
// host through both devices, S / 8 through each. Inside a host, messages take less time.
TEST_CASE("rings inside sites use the uplinks of all devices of a host") {
  Topology topology = flat_topology({4}, link_of(0, 10 * B), link_of(0, 10 * B));
  std::get<RuleLinks>(topology.links).same_host = Eigen::MatrixXi::Zero(1, 1);
  for (int i = 0; i < 4; ++i) {
    Device& device = topology.devices[at(i)];
    device.host = i / 2;
    device.uplink = device.downlink = BitsPerSecond(8 * B);
  }
  CHECK(last_end(topology, GradientSync::hierarchical_ring) == Approx(6 * S / 8 / B));
  CHECK(simulated(topology, GradientSync::hierarchical_ring, all_of(topology)) == Approx(6 * S / 8 / B));
}

// Hosts of one device: a ring of h has 2 (h - 1) latencies, a tree 2 ceil(log2 h), for each of 10 pieces. A
// reduce-scatter has no tree.
TEST_CASE("pieces take the latency of a tree between hosts if that of a ring is longer") {
  const double pieces = 10;
  struct Case {
    int hosts, depth;
  };
  for (const auto& [hosts, depth] : {Case{2, 1}, {3, 2}, {4, 2}, {5, 3}, {8, 3}, {9, 4}, {33, 6}}) {
    CAPTURE(hosts);
    const Topology topology = flat_topology({hosts}, link_of(a, B), link_of(a, B));
    const double half_s = (hosts - 1) * S / hosts / B, all_s = 2 * half_s + pieces * 2 * depth * a,
                 scattered_s = half_s + pieces * (hosts - 1) * a;
    const std::vector<int> all = all_of(topology);
    const auto ring = GradientSync::ring;
    CHECK(estimated(topology, ring, all, {}, Collective::all_reduce, pieces).seconds == Approx(all_s));
    CHECK(simulated(topology, ring, all, {}, Collective::all_reduce, pieces) == Approx(all_s));
    CHECK(estimated(topology, ring, all, {}, Collective::reduce_scatter, pieces).seconds ==
          Approx(scattered_s));
    CHECK(simulated(topology, ring, all, {}, Collective::reduce_scatter, pieces) == Approx(scattered_s));
  }
}

// Overheads, too, count once per hop of the tree, 2 · 3 of them with 8 hosts, whatever the latency is.
TEST_CASE("a tree has the overheads of its hops") {
  Calibration constants;
  constants.message_overhead_s = a;
  for (const double latency_s : {0.0, 1e-9 * a, a}) {
    CAPTURE(latency_s);
    const Topology topology = flat_topology({8}, link_of(latency_s, B), link_of(latency_s, B));
    const double pieces = 10, expected_s = 14 * S / 8 / B + pieces * 6 * (latency_s + a);
    const std::vector<int> all = all_of(topology);
    const auto ring = GradientSync::ring;
    CHECK(estimated(topology, ring, all, constants, Collective::all_reduce, pieces).seconds ==
          Approx(expected_s));
    CHECK(simulated(topology, ring, all, constants, Collective::all_reduce, pieces) == Approx(expected_s));
  }
}

// Four hosts of three devices. A message between hosts has three parts, each of which takes as long as one
// inside a host. The ring has 22 hops of (8 a + 4 · 7 a) ÷ 12 = 3 a on average, the tree 2 (2 a + 2 · 7 a).
// The slowest 22 consecutive hops leave out two of a, so that they have 70 a instead of 66. At two sites, or
// with a transport, there are no trees.
TEST_CASE("devices of a host are a chain of the tree") {
  Topology topology = hosts_with(4, 3, link_of(a, 3 * B), link_of(7 * a, B));
  const std::vector<int> all = all_of(topology);
  const double transfer_s = 22 * S / 12 / (3 * B), pieces = 1000;
  const double tree_s = pieces * 32.0 / 66 * 70 * a;
  const auto seconds = [&](auto& function) {
    return function(topology, GradientSync::ring, all, Calibration(), Collective::all_reduce, pieces);
  };
  const auto estimate_s = [](const auto&... args) { return estimated(args...).seconds; };
  CHECK(seconds(estimate_s) == Approx(transfer_s + tree_s));
  CHECK(seconds(simulated) == Approx(transfer_s + tree_s));
  topology.transport = Transport();
  CHECK(seconds(estimate_s) > pieces * 60 * a);
  CHECK(seconds(simulated) > pieces * 60 * a);
  topology.transport.reset();
  topology.sites.push_back({"there"});
  for (int i = 6; i < 12; ++i) topology.devices[at(i)].site = 1;
  CHECK(seconds(estimate_s) == Approx(transfer_s + pieces * 70 * a));
  CHECK(seconds(simulated) == Approx(transfer_s + pieces * 70 * a));
}

TEST_CASE("every message pays overhead and every byte pays for efficiency") {
  const Calibration constants{1, 0.25, 0.5, 0};
  CHECK(last_end(access_link_star(4), GradientSync::ring, constants) ==
        Approx(2 * 3 * (0.25 + a + S / (4 * B * 0.5))));
}

// Both directions of a ring of n: 2 (n − 1) messages of S / n from every device.
TEST_CASE("bytes over shared capacities are those of all messages") {
  const Topology topology = access_link_star(4);
  const NetworkCost network(topology, {});
  struct Case {
    GradientSync sync;
    double out, in;  // bytes of the first device
  };
  for (const Case& it :
       {Case{GradientSync::ring, 6 * S / 4, 6 * S / 4}, Case{GradientSync::sharded_ps, 6 * S / 4, 6 * S / 4},
        Case{GradientSync::central_ps, 3 * S, 3 * S}, Case{GradientSync::tree, 2 * S, 2 * S},
        Case{GradientSync::hierarchical, 6 * S / 4, 6 * S / 4},
        Case{GradientSync::hierarchical_ring, 6 * S / 4, 6 * S / 4}}) {
    CAPTURE(it.sync);
    std::map<CapacityOwner, double> bytes;  // of the first device with each kind of capacity
    const auto link_bytes = estimated(topology, it.sync, all_of(topology)).link_bytes;
    for (const auto& [id, of_link] : link_bytes) bytes.emplace(network.owner(id), of_link);
    CHECK(bytes[CapacityOwner::sender] == Approx(it.out));
    CHECK(bytes[CapacityOwner::receiver] == Approx(it.in));
    CHECK(link_bytes.size() == 8);
  }
}

TEST_CASE("a gradient sync algorithm without a time formula is rejected") {
  CHECK(error_message([] { last_end(access_link_star(2), GradientSync::none); }) ==
        "gradient_sync none has no time formula");
}

// A ring may wait for messages of different senders in a way that no path of `ring_s` covers, and a parameter
// server sends its sum only after its own shard. In an all-reduce with several instances, which only the
// runtime of `pytorch` runs, the estimate is no lower bound: it assumes that a member forwards nothing in its
// instance until its own shard is summed, and ignores that its link may still be busy.
TEST_CASE("the estimate is a lower bound close to the simulator on heterogeneous links") {
  for (const GradientSync sync : syncs) {
    double worst = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      Rng rng = Rng::for_task(1, seed);
      Topology topology = directed_topology(rng, 12);
      for (Site site : {Site{"there"}, Site{"yonder"}}) topology.sites.push_back(site);
      for (Device& device : topology.devices) {
        device.host = static_cast<int>(rng.below(8));
        device.site = device.host % 3;
      }
      const Calibration constants{1, 0.01 * rng.uniform(), 0.5 + rng.uniform() / 2, 0};
      const std::vector<int> group = random_group(rng, 12);
      CAPTURE(seed, sync, group);
      const double error =
          estimated(topology, sync, group, constants).seconds / simulated(topology, sync, group, constants) -
          1;
      CHECK(error <= (traits(sync).has_instances ? 0.12 : 1e-9));
      worst = std::min(worst, error);
      if (traits(sync).uses_channels && !traits(sync).has_instances)
        for (const Collective part : {Collective::all_reduce, Collective::reduce_scatter}) {
          const double pieces = 1 + 20 * rng.uniform(),
                       simulated_s = simulated(topology, sync, group, constants, part, pieces);
          CAPTURE(part, pieces);
          // Of trees, the estimate uses only the longest latencies.
          const double too_high = part == Collective::all_reduce ? 1.15 : 1 + 1e-9,
                       estimated_s = estimated(topology, sync, group, constants, part, pieces).seconds;
          CHECK(estimated_s <= too_high * simulated_s);
          CHECK(estimated_s >= 0.95 * simulated_s);
        }
      if (!traits(sync).has_instances) continue;
      for (const Collective part : {Collective::reduce_scatter, Collective::all_gather}) {
        const double simulated_s = simulated(topology, sync, group, constants, part);
        CHECK(estimated(topology, sync, group, constants, part).seconds <= simulated_s + 1e-9);
        CHECK(estimated(topology, sync, group, constants, part).seconds >= 0.95 * simulated_s);
      }
    }
    CAPTURE(sync, worst);
    CHECK(worst > (traits(sync).has_instances ? -0.1 : -0.05));
  }
}

TEST_CASE("interchangeable replicas are synchronized as fast as distinct ones") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Rng rng = Rng::for_task(seed, 11);
    const Topology equal = random_topology(rng, 24, seed % 2 == 1);
    Topology distinct = equal;
    // Uplinks that are never narrow, but have ids of their own.
    for (Device& it : distinct.devices) it.uplink = std::min(it.uplink, BitsPerSecond(1e15));
    const std::vector<int> devices = random_group(rng, 24);
    for (const GradientSync sync : syncs) {
      CAPTURE(seed, sync);
      const SyncTime classes = estimated(equal, sync, devices),
                     one_by_one = estimated(distinct, sync, devices);
      CHECK(classes.seconds == Approx(one_by_one.seconds).epsilon(1e-9));
      CHECK(classes.egress_usd == Approx(one_by_one.egress_usd).epsilon(1e-9));
    }
  }
}

// The parts of two replicas with one device each follow each other on one channel: 2 (S / 3 + S / 3) ÷ B.
TEST_CASE("replicas that hold several shards send them one after the other") {
  const Topology topology = flat_topology({3}, link_of(0, B), link_of(0, B));
  const NetworkCost network(topology, {});
  const ReplicaGroup group{{0, 1, 2}, {1, 2, 2}, S, 2};
  CHECK(gradient_sync_time(GradientSync::sharded_ps, topology, network, {&group, 1}).seconds ==
        Approx(2 * 2 * S / (3 * B)));
}

TEST_CASE("devices are of one kind if nothing distinguishes them") {
  const Topology topology = flat_topology({3, 2}, link_of(a, B), link_of(2 * a, B));
  const NetworkCost network(topology, {});
  for (int device = 0; device < 5; ++device) CHECK(network.kind(device) == (device < 3 ? 0 : 1));
  Topology different = topology;
  different.devices[1].downlink = BitsPerSecond(B);
  const NetworkCost other(different, {});
  CHECK(other.kind(0) == other.kind(2));
  CHECK(other.kind(0) != other.kind(1));
  for (Device& device : different.devices) device.downlink = BitsPerSecond(B);
  CHECK(NetworkCost(different, {}).kinds() == 2);  // equal capacities of their own do not distinguish devices
}

namespace {

/// Returns two sites of `size` devices, whose links are measured with a difference of up to 10 %.
Topology measured_sites(Rng& rng, int size) {
  Topology topology = flat_topology({size, size}, {}, {});
  Eigen::MatrixXd latency(2 * size, 2 * size), bandwidth(2 * size, 2 * size);
  for (int from = 0; from < 2 * size; ++from)
    for (int to = 0; to < 2 * size; ++to) {
      const bool inside = (from < size) == (to < size);
      latency(from, to) = (inside ? a : 4 * a) * (1 + 0.1 * rng.uniform());
      bandwidth(from, to) = 8 * (inside ? 5 * B : B) * (1 + 0.1 * rng.uniform());
    }
  topology.links = MeasuredLinks{latency, bandwidth};
  return topology;
}

/// Returns the end of sharded-ps by its definition: every replica sends a shard to every other one, and when
/// it has all of its own, their sum.
double sharded_ps_end(const Topology& topology, double bytes) {
  const NetworkCost network(topology, {});
  const int n = topology.size();
  double end = 0;
  for (int owner = 0; owner < n; ++owner) {
    double received = 0;
    for (int from = 0; from < n; ++from)
      if (from != owner) received = std::max(received, network.message(from, owner).total_s(bytes / n));
    for (int to = 0; to < n; ++to) {
      if (to == owner) continue;
      const MessageCost cost = network.message(owner, to);
      const double start = std::max(received, cost.occupancy_s(bytes / n));
      end = std::max(end, start + cost.total_s(bytes / n));
    }
  }
  return end;
}

}  // namespace

TEST_CASE("many replicas that only measured links distinguish are estimated by the worst links") {
  Rng rng = Rng::for_task(1, 2);
  for (const int size : {8, 32, 40, 100}) {
    CAPTURE(size);
    const Topology topology = measured_sites(rng, size);
    const NetworkCost network(topology, {});
    CHECK(network.kinds() == 2 * at(size));
    REQUIRE(network.has_coarse_kinds());
    for (int device = 0; device < 2 * size; ++device)
      CHECK(network.coarse_kind(device) == (device < size ? 0 : 1));
    const double exact = sharded_ps_end(topology, S), estimate = last_end(topology, GradientSync::sharded_ps);
    if (2 * at(size) <= max_sync_classes)
      CHECK(estimate == Approx(exact));
    else
      CHECK((exact <= estimate * (1 + 1e-12) && estimate <= 1.1 * exact));
  }
}
