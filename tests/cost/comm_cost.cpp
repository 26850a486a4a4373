#include "planner/cost/comm_cost/comm_cost.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "planner/cost/comm_cost/bottleneck_matching.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/exhaustive.hpp"
#include "tests/support/random_networks.hpp"
#include "tests/support/shipped_model.hpp"

using namespace dtfm;
using namespace dtfm::cost;

namespace {

constexpr double rounding = 1e-12;

// Volumes: gradients of 1 Gbit per stage, activations of 0.5 Gbit per boundary. With two replicas a gradient
// shard has 0.5 Gbit, too, so synchronization and hop of a pair cost the same.
const CommVolumes gigabits{Bytes(1e9 / 8), Bytes(0.5e9 / 8)};

/// Returns four devices a, b, c, d. From row to column, a message of 0.5 Gbit takes latency + 0.5 Gbit /
/// bandwidth:
///          a                b                c                d
///   a                       0.1 + 0.5/1      0.2 + 0.5/0.5    0.3 + 0.5/0.25
///   b      0.2 + 0.5/0.5                     0.1 + 0.5/0.5    0.2 + 0.5/0.25
///   c      0.1 + 0.5/0.25   0.3 + 0.5/1                       0.1 + 0.5/1
///   d      0.4 + 0.5/0.5    0.1 + 0.5/0.25   0.1 + 0.5/0.5
/// In both directions together: ab 0.6 + 1.2 = 1.8, ac 1.2 + 2.1 = 3.3, ad 2.3 + 1.4 = 3.7, bc 1.1 + 0.8 =
/// 1.9, bd 2.2 + 2.1 = 4.3, cd 0.6 + 1.1 = 1.7.
CommCostModel four_devices() {
  Eigen::MatrixXd latency(4, 4), gigabit(4, 4);
  latency << 0, 0.1, 0.2, 0.3,  //
      0.2, 0, 0.1, 0.2,         //
      0.1, 0.3, 0, 0.1,         //
      0.4, 0.1, 0.1, 0;
  gigabit << 1, 1, 0.5, 0.25,  //
      0.5, 1, 0.5, 0.25,       //
      0.25, 1, 1, 1,           //
      0.5, 0.25, 0.5, 1;
  return comm_cost_model(measured_topology(latency, gigabit * 1e9), gigabits, 2, 2);
}

Placement placement_of(int stages, int replicas, const std::vector<int>& devices) {
  Placement placement(stages, replicas);
  for (std::size_t i = 0; i < devices.size(); ++i)
    placement.at(static_cast<int>(i) / replicas, static_cast<int>(i) % replicas) = devices[i];
  return placement;
}

double deployed_total(const CommCostModel& model, const Placement& placement) {
  return comm_cost(model, best_deployment(model, placement)).total();
}

/// A symmetric network in the paper's notation: α in s, β in bit/s.
struct SymmetricNetwork {
  Eigen::MatrixXd alpha, beta;
};

SymmetricNetwork symmetric_network(Rng& rng, int devices) {
  SymmetricNetwork network{Eigen::MatrixXd::Zero(devices, devices), Eigen::MatrixXd::Ones(devices, devices)};
  for (int a = 0; a < devices; ++a) {
    for (int b = 0; b < a; ++b) {
      network.alpha(a, b) = network.alpha(b, a) = 0.1 * rng.uniform();
      network.beta(a, b) = network.beta(b, a) = 1e9 * (0.1 + rng.uniform());
    }
  }
  return network;
}

/// Computes sections 3.2 and 3.3 of the paper directly for stages in the order of `groups`: DATAP, twice the
/// synchronization with every other member, plus twice the sum of the bottleneck matchings. Bytes are
/// converted to bits.
double paper_cost(const SymmetricNetwork& network, double gradient, double activation, const Groups& groups) {
  double datap = 0;
  for (const auto& group : groups) {
    for (const int d : group) {
      double sum = 0;
      for (const int e : group)
        if (d != e)
          sum += 2 * (network.alpha(d, e) +
                      8 * gradient / (static_cast<double>(group.size()) * network.beta(d, e)));
      datap = std::max(datap, sum);
    }
  }
  double pipelinep = 0;
  for (std::size_t i = 1; i < groups.size(); ++i) {
    auto next = groups[i];
    std::sort(next.begin(), next.end());
    double best = std::numeric_limits<double>::infinity();
    do {
      double slowest = 0;
      for (std::size_t r = 0; r < next.size(); ++r) {
        const int d = groups[i - 1][r], e = next[r];
        slowest = std::max(slowest, network.alpha(d, e) + 8 * activation / network.beta(d, e));
      }
      best = std::min(best, slowest);
    } while (std::next_permutation(next.begin(), next.end()));
    pipelinep += best;
  }
  return datap + 2 * pipelinep;
}

double paper_comm_cost(const SymmetricNetwork& network, double gradient, double activation, Groups groups) {
  std::sort(groups.begin(), groups.end());
  double best = std::numeric_limits<double>::infinity();
  do best = std::min(best, paper_cost(network, gradient, activation, groups));
  while (std::next_permutation(groups.begin(), groups.end()));
  return best;
}

const std::vector<std::pair<int, int>> tiny_shapes = {{1, 1}, {1, 4}, {2, 1}, {4, 1},
                                                      {2, 2}, {3, 2}, {2, 4}, {4, 3}};

}  // namespace

TEST_CASE("four devices: both directions of a pair are added") {
  const CommCostModel model = four_devices();
  Eigen::MatrixXd expected(4, 4);
  expected << 0, 1.8, 3.3, 3.7,  //
      1.8, 0, 1.9, 4.3,          //
      3.3, 1.9, 0, 1.7,          //
      3.7, 4.3, 1.7, 0;
  CHECK((model.hop - expected).cwiseAbs().maxCoeff() < rounding);
  CHECK((model.sync - expected).cwiseAbs().maxCoeff() < rounding);
  // With one replica a shard is the whole gradient, 1 Gbit: a and b take 0.1 + 1/1 + 0.2 + 1/0.5.
  Eigen::MatrixXd none = Eigen::MatrixXd::Zero(2, 2), rate(2, 2);
  none << 0, 0.1, 0.2, 0;
  rate << 1e9, 1e9, 0.5e9, 1e9;
  CHECK(comm_cost_model(measured_topology(none, rate), gigabits, 2, 1).sync(0, 1) == Approx(3.3));
}

// Groups ab, cd: synchronization max(1.8, 1.7). Pairs a–c, b–d: max(3.3, 4.3); a–d, b–c: max(3.7, 1.9).
TEST_CASE("four devices: a placement has its own cost and that of its best deployment") {
  const CommCostModel model = four_devices();
  const Placement straight = placement_of(2, 2, {0, 1, 2, 3});
  CHECK(comm_cost(model, straight).data_parallel == Approx(1.8));
  CHECK(comm_cost(model, straight).pipeline_parallel == Approx(4.3));
  CHECK(comm_cost(model, straight).total() == Approx(6.1));
  const Placement deployed = best_deployment(model, straight);
  CHECK(comm_cost(model, deployed).data_parallel == Approx(1.8));
  CHECK(comm_cost(model, deployed).pipeline_parallel == Approx(3.7));
  CHECK(coarsened_graph(model, straight)(0, 1) == Approx(3.7));
  CHECK(coarsened_graph(model, straight)(1, 1) == 0);
  // Groups ac, bd: synchronization 4.3; a–b, c–d: 1.8; a–d, b–c: 3.7. Groups ad, bc: 3.7; a–b, d–c: 1.8; a–c,
  // d–b: 4.3.
  CHECK(deployed_total(model, placement_of(2, 2, {0, 2, 1, 3})) == Approx(4.3 + 1.8));
  CHECK(deployed_total(model, placement_of(2, 2, {0, 3, 1, 2})) == Approx(3.7 + 1.8));
  CHECK(exhaustive_optimum(model) == Approx(5.5));
}

// With four stages of one device there is no synchronization. The hops make the path a, b, c, d: 1.8 + 1.9 +
// 1.7. With one stage there is no hop: with shards of 0.25 Gbit, ab costs 0.3 + 0.25/1 + 0.25/0.5 = 1.05, ad
// 0.7 + 1 + 0.5 = 2.2, bd 0.3 + 1 + 1 = 2.3, cd 0.2 + 0.25 + 0.5 = 0.95. d takes longest, 2.2 + 2.3 + 0.95
// (b: 1.05 + 2.3 + 0.4 + 0.5 + 0.25).
TEST_CASE("four devices: one replica has no synchronization and one stage has no hop") {
  CommCostModel model = four_devices();
  model.stages = 4;
  model.replicas = 1;
  const Placement deployed = best_deployment(model, placement_of(4, 1, {2, 0, 3, 1}));
  CHECK(comm_cost(model, deployed).data_parallel == 0);
  CHECK(comm_cost(model, deployed).pipeline_parallel == Approx(5.4));
  Eigen::MatrixXd latency(4, 4), gigabit(4, 4);
  latency << 0, 0.1, 0.2, 0.3, 0.2, 0, 0.1, 0.2, 0.1, 0.3, 0, 0.1, 0.4, 0.1, 0.1, 0;
  gigabit << 1, 1, 0.5, 0.25, 0.5, 1, 0.5, 0.25, 0.25, 1, 1, 1, 0.5, 0.25, 0.5, 1;
  const auto one_stage = comm_cost_model(measured_topology(latency, gigabit * 1e9), gigabits, 1, 4);
  const CommCost cost = comm_cost(one_stage, placement_of(1, 4, {0, 1, 2, 3}));
  CHECK(cost.data_parallel == Approx(2.2 + 2.3 + 0.95));
  CHECK(cost.pipeline_parallel == 0);
}

TEST_CASE("stages and replicas must use all devices") {
  Rng rng = Rng::for_task(0, 0);
  const Topology topology = directed_topology(rng, 6);
  CHECK_NOTHROW(comm_cost_model(topology, gigabits, 3, 2));
  CHECK(error_message([&] { comm_cost_model(topology, gigabits, 4, 2); }) ==
        "4 stages × 2 replicas need 8 devices, but the topology has 6");
  CHECK(error_message([&] { comm_cost_model(topology, gigabits, 0, 6); }) != "no error");
  CHECK(error_message([&] { comm_cost_model(topology, gigabits, -2, -3); }) != "no error");
  CHECK(error_message([&] { comm_cost_model(topology, gigabits, 65536, 65536); }) != "no error");
}

// The best known structures. Where there are at most as many hosts or regions as replicas, all of equal size,
// every group has an equal share of each: device d is in group d mod 8, and the hops stay inside. In the spot
// case, the 8 hosts of 4 devices are spread over four groups in this way, with one hop between each two of
// them inside a host, and the 32 other devices form the other four groups.
TEST_CASE("the five cases have the cost of their best known structures") {
  Placement spread(8, 8), spot(8, 8);
  for (int device = 0; device < 64; ++device) {
    spread.at(device % 8, device / 8) = device;
    spot.at(device / 32 * 4 + device % 4, device % 32 / 4) = device;
  }
  const auto cost = [](const char* name, const Placement& placement) {
    return deployed_total(shipped_model(name), placement);
  };
  CHECK(cost("datacenter", spread) == Approx(3.439799129).epsilon(1e-9));
  CHECK(cost("spot", spot) == Approx(31.634159832).epsilon(1e-9));
  // By hand: 0.65 Gbit with 7 others in both directions, and in 4 of 7 hops 3.76999… Gbit forward and
  // backward, at 10 Gbit/s, as in spot at 1.25; 3 hops inside a host at 100 Gbit/s.
  CHECK(cost("spot-10g", spot) == Approx(14 * 0.65 / 10 + 3.76999378 * (8. / 10 + 6. / 100)).epsilon(1e-8));
  CHECK(cost("universities", spread) == Approx(16.086839733).epsilon(1e-9));
  CHECK(cost("regional", spread) == Approx(34.802041017).epsilon(1e-9));
  CHECK(cost("worldwide", spread) == Approx(49.218380053).epsilon(1e-9));
}

// Case 1 by hand: a GPU synchronizes 0.65e9 / 8 bytes, 0.65 Gbit, with 7 others in both directions at 3.125
// Gbit/s: 2.912 s. Its 0.471249… GB go to the next stage inside the host at 100 Gbit/s, 7 times, forward and
// backward: 14 · 0.0376999….
TEST_CASE("the data centre has the cost derived by hand") {
  const CommCostModel model = shipped_model("datacenter");
  Placement spread(8, 8);
  for (int device = 0; device < 64; ++device) spread.at(device % 8, device / 8) = device;
  const CommCost cost = comm_cost(model, best_deployment(model, spread));
  CHECK(cost.data_parallel == Approx(14 * 0.65 / 3.125).epsilon(rounding));
  CHECK(cost.pipeline_parallel == Approx(14 * 0.47124922275543213 * 8 / 100).epsilon(rounding));
}

TEST_CASE("a deployed partition has the minimum cost over all orders and all matchings") {
  for (const auto& [stages, replicas] : tiny_shapes) {
    for (const Network network : all_networks) {
      for (std::uint64_t seed = 0; seed < 6; ++seed) {
        CAPTURE(stages, replicas, static_cast<int>(network), seed);
        Rng rng = Rng::for_task(seed, static_cast<std::uint64_t>(stages * 10 + replicas));
        const CommCostModel model = random_model(rng, network, stages, replicas);
        const Placement placement = random_placement(rng, stages, replicas);
        const Placement deployed = best_deployment(model, placement);
        const double least = exhaustive_comm_cost(model, groups_of(placement));
        REQUIRE(comm_cost(model, deployed).total() == Approx(least).epsilon(rounding));
        REQUIRE(comm_cost(model, deployed).total() <= comm_cost(model, placement).total() * (1 + rounding));
        Groups before = groups_of(placement), after = groups_of(deployed);
        for (Groups* groups : {&before, &after}) {
          for (auto& group : *groups) std::sort(group.begin(), group.end());
          std::sort(groups->begin(), groups->end());
        }
        REQUIRE(before == after);
        BottleneckMatcher matcher(replicas);
        const Groups groups = groups_of(placement);
        for (const auto& a : groups) {
          REQUIRE(sync_cost(model, a) == Approx(exhaustive_sync_cost(model, a)).epsilon(rounding));
          for (const auto& b : groups)
            if (&a != &b) REQUIRE(matching_cost(model, a, b, matcher) == exhaustive_matching(model, a, b));
        }
      }
    }
  }
}

// Beyond sixteen stages the order is not necessarily optimal, but never worse than the given one.
TEST_CASE("the best deployment of many stages never costs more than the placement itself") {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 0);
    const CommCostModel model = random_model(rng, Network::smooth, 20, 3);
    const Placement placement = random_placement(rng, 20, 3);
    REQUIRE(deployed_total(model, placement) <= comm_cost(model, placement).total() * (1 + rounding));
    const Placement deployed = best_deployment(model, placement);
    REQUIRE(deployed_total(model, deployed) <= comm_cost(model, deployed).total() * (1 + rounding));
  }
}

TEST_CASE("on a symmetric network the cost is that of the paper") {
  for (const auto& [stages, replicas] : tiny_shapes) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      CAPTURE(stages, replicas, seed);
      Rng rng = Rng::for_task(seed, static_cast<std::uint64_t>(stages * 10 + replicas));
      const SymmetricNetwork network = symmetric_network(rng, stages * replicas);
      const double gradient = 1e8 * rng.uniform(), activation = 1e8 * rng.uniform();
      const CommCostModel model = comm_cost_model(measured_topology(network.alpha, network.beta),
                                                  {Bytes(gradient), Bytes(activation)}, stages, replicas);
      const Placement placement = random_placement(rng, stages, replicas);
      REQUIRE(deployed_total(model, placement) ==
              Approx(paper_comm_cost(network, gradient, activation, groups_of(placement))).epsilon(rounding));
    }
  }
}

TEST_CASE("renumbering the devices does not change the cost") {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 0);
    const Topology topology = directed_topology(rng, 24);
    const auto& links = std::get<MeasuredLinks>(topology.links);
    const std::vector<int> name = random_placement(rng, 1, 24).devices();  // the new index of each device
    Eigen::MatrixXd latency(24, 24), bandwidth(24, 24);
    for (int a = 0; a < 24; ++a) {
      for (int b = 0; b < 24; ++b) {
        latency(name[at(a)], name[at(b)]) = links.latency(a, b);
        bandwidth(name[at(a)], name[at(b)]) = links.bandwidth(a, b);
      }
    }
    const Placement placement = random_placement(rng, 6, 4);
    std::vector<int> renamed;
    for (const int device : placement.devices()) renamed.push_back(name[at(device)]);
    const auto model = comm_cost_model(topology, gigabits, 6, 4);
    const auto other = comm_cost_model(measured_topology(latency, bandwidth), gigabits, 6, 4);
    REQUIRE(comm_cost(other, placement_of(6, 4, renamed)).total() ==
            Approx(comm_cost(model, placement).total()).epsilon(rounding));
    REQUIRE(deployed_total(other, placement_of(6, 4, renamed)) ==
            Approx(deployed_total(model, placement)).epsilon(rounding));
  }
}

TEST_CASE("faster links never cost more and scaled links scale the cost") {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 0);
    const Topology topology = directed_topology(rng, 24);
    const auto links = std::get<MeasuredLinks>(topology.links);
    const Placement placement = random_placement(rng, 6, 4);
    const double before = deployed_total(comm_cost_model(topology, gigabits, 6, 4), placement);
    Eigen::MatrixXd latency = links.latency, bandwidth = links.bandwidth;
    double last = before;
    for (int change = 0; change < 400; ++change) {
      const int a = static_cast<int>(rng.below(24)), b = static_cast<int>(rng.below(24));
      (change % 2 == 0 ? latency(a, b) *= rng.uniform() : bandwidth(a, b) /= rng.uniform());
      const auto model = comm_cost_model(measured_topology(latency, bandwidth), gigabits, 6, 4);
      const double now = deployed_total(model, placement);
      REQUIRE(now <= last * (1 + rounding));
      last = now;
    }
    CHECK(last < before);
    const Eigen::MatrixXd &slow = links.latency, &fast = links.bandwidth;
    const auto thrice = measured_topology(3 * slow, fast / 3);
    CHECK(deployed_total(comm_cost_model(thrice, gigabits, 6, 4), placement) ==
          Approx(3 * before).epsilon(rounding));
  }
}

TEST_CASE("a link whose time overflows is an error rather than an infinite cost") {
  Eigen::MatrixXd latency = Eigen::MatrixXd::Zero(2, 2);
  Eigen::MatrixXd bandwidth = Eigen::MatrixXd::Constant(2, 2, 1e-320);
  const Topology topology = measured_topology(latency, bandwidth);
  CHECK(error_message([&] { comm_cost_model(topology, gigabits, 2, 1); }) ==
        "a communication time overflows: a link is too slow or a message too large");
}
