#include <algorithm>
#include <cmath>

#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "planner/api/api.hpp"
#include "planner/api/devices/sub_topology.hpp"
#include "planner/search/iteration_time/least_memory.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::api;

namespace {

const Link fast_link = link_of(0, 1e15);

SmallestCluster smallest(PlanRequest request, std::optional<double> max_iteration_s = {}) {
  request.question = PlanQuestion{QuestionKind::smallest_cluster, max_iteration_s};
  return plan(request).smallest_cluster.value();
}

/// Of all subsets of the devices on which the planner finds a fast enough plan, the least number of devices,
/// or the least price.
double exhaustive(const Problem& problem, double max_iteration_s, bool by_price) {
  const Topology& topology = problem.topology;
  double least = infinity;
  for (unsigned subset = 1; subset < 1u << topology.size(); ++subset) {
    std::vector<bool> included;
    double weight = 0;
    for (int device = 0; device < topology.size(); ++device) {
      included.push_back((subset >> device & 1u) != 0);
      if (included.back()) weight += by_price ? price_of(topology, device)->value() : 1;
    }
    if (weight >= least) continue;
    PlanRequest request{problem};
    request.problem.topology = Shared<Topology>(sub_topology(topology, included).topology);
    const FoundPlans found = find_plans(request);
    if (found.fits() && found.finalist_results.front().seconds <= max_iteration_s) least = weight;
  }
  return least;
}

/// Four devices of speeds 1, 1, 0.5 and 2 at two sites; 4 layers of 3 s, 4 micro-batches.
Problem four_devices() {
  Problem problem{flat_topology({2, 2}, fast_link, link_of(0.5, 1e15)), chain_job(4, 0, 1), {}};
  problem.job.training.global_batch = 4;
  problem.topology.edit().devices[2].speed = 0.5;
  problem.topology.edit().devices[3].speed = 2;
  return problem;
}

}  // namespace

// A layer needs 16 bytes for each of 1e6 parameters, so a device of 40 MB holds two of the four, and one of
// 70 MB all.
TEST_CASE("the smallest cluster that fits in memory is proven by sums of bytes") {
  Problem problem{flat_topology({3, 2}, fast_link, fast_link), chain_job(4, 1e6, 1), {}};
  problem.topology.edit().gpus[0].memory = Bytes(40e6);
  SmallestCluster result = smallest({problem});
  CHECK(!result.is_by_price);
  CHECK(result.value == 2);
  CHECK(result.lower_bound == 2);
  CHECK(result.is_proven);
  CHECK(result.is_met);
  CHECK(search::min_fitting_devices(problem, {}) == 2);
  problem.topology.edit().gpus[0].memory = Bytes(70e6);
  result = smallest({problem});
  CHECK(result.value == 1);
  CHECK(result.is_proven);
  problem.topology.edit().gpus[0].memory = Bytes(12e6);  // not even one layer
  CHECK(!smallest({problem}).is_met);
  CHECK(search::min_fitting_devices(problem, {}) == 6);
}

TEST_CASE("the smallest cluster is that of all subsets of the devices") {
  const Problem problem = four_devices();
  for (const double max_s : {10.0, 16.0, 25.0, 48.0, 60.0}) {
    CAPTURE(max_s);
    const double expected = exhaustive(problem, max_s, false);
    const SmallestCluster result = smallest({problem}, max_s);
    CHECK(result.is_met == std::isfinite(expected));
    if (!result.is_met) continue;
    CHECK(result.value == expected);
    CHECK(result.is_exhaustive);
    CHECK(result.lower_bound <= expected);
  }
}

TEST_CASE("with prices the cheapest cluster is chosen, not the one with the fewest devices") {
  Problem problem = four_devices();
  const double prices[] = {1, 1, 0.25, 9};
  for (std::size_t device = 0; device < 4; ++device)
    problem.topology.edit().devices[device].price = DollarsPerHour(prices[device]);
  for (const double max_s : {16.0, 25.0, 36.0, 60.0}) {
    CAPTURE(max_s);
    const SmallestCluster result = smallest({problem}, max_s);
    CHECK(result.is_by_price);
    CHECK(result.is_met);
    CHECK(result.value == Approx(exhaustive(problem, max_s, true)));
    CHECK(result.lower_bound <= result.value * (1 + 1e-9));
  }
  CHECK(smallest({problem}).value == 0.25);
}

// Devices of 40, 10 and 40 MB for 64 MB. The first costs least per byte; the other 24 MB cost least on the
// third.
TEST_CASE("the price of a cluster is bounded by that of the bytes of a plan") {
  Problem problem{flat_topology({3}, fast_link, fast_link), chain_job(4, 1e6, 1), {}};
  Topology& topology = problem.topology.edit();
  topology.gpus.push_back(topology.gpus[0]);
  topology.gpus[0].memory = Bytes(40e6);
  topology.gpus[1].memory = Bytes(10e6);
  topology.devices[1].gpu = 1;
  const double prices[] = {1, 1, 3};
  for (std::size_t device = 0; device < 3; ++device)
    topology.devices[device].price = DollarsPerHour(prices[device]);
  CHECK(search::min_fitting_bytes(problem, {}) == Approx(64e6).epsilon(1e-4));
  const SmallestCluster result = smallest({problem});
  CHECK(result.lower_bound == Approx(1 + 3 * 24.0 / 40).epsilon(1e-4));
  CHECK(result.value == 4);
}

// 4 layers on one device of speed 2 take 4 · 12 ÷ 2 s. No device is faster, so no plan on one device is.
TEST_CASE("the plan on the smallest cluster is fast enough, as simulated, and names devices of the whole") {
  const Problem problem = four_devices();
  PlanRequest request{problem};
  request.question = PlanQuestion{QuestionKind::smallest_cluster, 24};
  const PlanAnswer answer = plan(request);
  REQUIRE(answer.smallest_cluster);
  CHECK(answer.smallest_cluster->value == 1);
  CHECK(answer.smallest_cluster->is_proven);
  CHECK(answer.plan.pipelines.at(0).stages.at(0).devices == std::vector{3});
  CHECK(answer.seconds == Approx(24));
  CHECK(answer.problem.topology->size() == 4);
  CHECK(answer.is_feasible());
  request.question->max_iteration_s = 1;
  CHECK(!plan(request).is_feasible());
}

TEST_CASE("many kinds of devices are left out one after the other") {
  Problem problem{flat_topology({3, 3, 3, 3}, fast_link, fast_link), chain_job(4, 1e6, 1), {}};
  for (std::size_t device = 0; device < 12; ++device)  // 2^12 combinations
    problem.topology.edit().devices[device].speed = 1 + 0.01 * static_cast<double>(device);
  problem.topology.edit().gpus[0].memory = Bytes(17e6);  // one layer on each; 64 MB need four
  const SmallestCluster result = smallest({problem});
  CHECK(result.value == 4);
  CHECK(!result.is_exhaustive);
  CHECK(result.is_proven);
}

namespace {

/// Two stages of 1 s forward and 2 s backward under gpipe, 8 micro-batches, with messages of x = 5 s ÷ f if
/// links are f times as fast: 27 + 2 x s for x ≤ 1.
PlanRequest two_sites() {
  Problem problem{flat_topology({1, 1}, fast_link, link_of(0, 1e6)), chain_job(2, 0, 5e6), {}};
  problem.job.training.global_batch = 8;
  PlanRequest request{problem};
  request.options.limits = {2, 1};
  request.question = PlanQuestion{QuestionKind::least_bandwidth};
  return request;
}

}  // namespace

// Nine kinds of one device each, by speed, are too many to try all combinations. One device is enough.
TEST_CASE("devices are left out down to the last one of many kinds") {
  Problem problem{flat_topology({9}, fast_link, fast_link), chain_job(4, 1e6, 1), {}};
  problem.topology.edit().gpus[0].memory = Bytes(70e6);
  for (int device = 0; device < 9; ++device)
    problem.topology.edit().devices[at(device)].speed = 1 + 0.1 * device;
  const SmallestCluster result = smallest({problem});
  CHECK(result.is_met);
  CHECK_FALSE(result.is_exhaustive);
  CHECK(result.value == 1);
}

TEST_CASE("the least bandwidth is where the closed formula reaches the time") {
  PlanRequest request = two_sites();
  request.question->max_iteration_s = 28;  // x = 0.5
  const PlanAnswer answer = plan(request);
  const LeastBandwidth& result = answer.least_bandwidth.value();
  CHECK(result.sites == std::pair(0, 1));
  CHECK(result.unlimited_s == Approx(27).epsilon(1e-4));
  REQUIRE(result.least);
  const double least = result.rows[*result.least].bits_per_s;
  CHECK(least >= 10 * 8e6 * (1 - 1e-9));
  CHECK(least <= 10 * 8e6 * 1.05);
  for (const BandwidthRow& row : result.rows) {
    REQUIRE(row.simulated_s);
    CHECK(row.iteration_s == Approx(*row.simulated_s).epsilon(1e-6));
    CHECK(row.is_enough == (row.iteration_s <= 28));
  }
  CHECK(std::is_sorted(result.rows.begin(), result.rows.end(), [](const auto& a, const auto& b) {
    return a.bits_per_s < b.bits_per_s && a.iteration_s > b.iteration_s;
  }));
  // The plan itself is that for the topology as it is: 2 · 8 · 5 + 2 + 4 s.
  CHECK(answer.seconds == Approx(87 - 1));
}

TEST_CASE("without a time, the least bandwidth attains a share of the throughput with an unlimited link") {
  PlanRequest request = two_sites();
  const LeastBandwidth result = plan(request).least_bandwidth.value();
  REQUIRE(result.least);
  const double x = (27 / 0.95 - 27) / 2, least = result.rows[*result.least].factor;
  CHECK(least >= 5 / x * (1 - 1e-4));
  CHECK(least <= 5 / x * 1.051);
  CHECK(result.rows[*result.least].throughput >= 0.95);
}

TEST_CASE("no bandwidth is enough for less time than with unlimited links") {
  PlanRequest request = two_sites();
  request.question->max_iteration_s = 26;
  CHECK(!plan(request).least_bandwidth.value().least);
}
