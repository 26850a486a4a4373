#include "planner/search/comm_cost/composition_bound.hpp"

#include <limits>

#include "tests/support/catch.hpp"
#include "tests/support/exhaustive.hpp"
#include "tests/support/random_networks.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::search;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr long long unlimited_evaluations = 1'000'000'000;

/// Checks that every value is a lower bound, and that those of interchangeable devices are exact.
void check_bounds(const CommCostModel& model) {
  const double optimum = exhaustive_optimum(model);
  CAPTURE(optimum);
  const double most = optimum * (1 + 1e-12);
  const auto check = [&](const DeviceClasses& classes) {
    for (const double upper_bound : {optimum, optimum * (1 + 1e-9), optimum * 1.3, infinity}) {
      for (const long long effort : {0LL, 1LL, 50LL, unlimited_evaluations}) {
        CAPTURE(classes.count, upper_bound, effort);
        CHECK(composition_bound(model, classes, upper_bound, effort, {}).value <= most);
      }
    }
  };
  const auto exact = interchangeable_devices(model);
  check(exact);
  for (const double upper_bound : {optimum * (1 + 1e-9), optimum * 1.3, infinity}) {
    const auto complete = composition_bound(model, exact, upper_bound, unlimited_evaluations, {});
    CHECK(complete.complete);
    CHECK(complete.value == Approx(optimum).epsilon(1e-9));
  }
  const Dendrogram tree = cluster_devices(model);
  for (int classes = 1; classes <= model.devices(); ++classes) check(tree.cut(classes));
}

}  // namespace

TEST_CASE("the bound never exceeds the optimum and equals it for interchangeable devices") {
  const auto network = GENERATE(from_range(all_networks));
  const auto shape =
      GENERATE(table<int, int>({{1, 1}, {1, 3}, {3, 1}, {2, 2}, {2, 3}, {3, 2}, {4, 2}, {2, 4}, {3, 3}}));
  const auto [stages, replicas] = shape;
  const int seeds = stages * replicas < 8 ? 12 : stages * replicas < 9 ? 4 : 2;
  for (int seed = 0; seed < seeds; ++seed) {
    CAPTURE(static_cast<int>(network), stages, replicas, seed);
    Rng rng = Rng::for_task(static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(network));
    check_bounds(random_model(rng, network, stages, replicas));
  }
}

// Few random networks have mixed groups that are part of longer segments than others; seed 99 is one of them.
TEST_CASE("the bound never exceeds the optimum if some groups mix regions") {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 77);
    check_bounds(region_model(rng, 4, 2));
  }
}

// Two sites {0 … 3} and {4 … 7}. A hop within a site takes 1, one between the gates 0, 1 and 4, 5 of the
// sites 10, any other 20. Every pair synchronizes in 1, except that the inner devices 2, 3, 6, 7 take 100
// with any device of the other site. The optimum is the stages 23, 01, 45, 67 with 1 + (1 + 10 + 1): the only
// cheap crossing is between pairs of gates, and only mixed groups of gates are cheap, which then have slow
// hops to the inner devices. A gate may be part of a longer segment of equal groups (one gate of each site)
// than an inner device.
TEST_CASE("a segment of equal groups may continue with devices that are only in shorter segments") {
  CommCostModel model = empty_model(4, 2);
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < 8; ++b) {
      if (a == b) continue;
      const bool same_site = a / 4 == b / 4, gates = a % 4 < 2 && b % 4 < 2;
      model.hop(a, b) = same_site ? 1 : gates ? 10 : 20;
      model.sync(a, b) = same_site || gates ? 1 : 100;
    }
  }
  CHECK(exhaustive_optimum(model) == 13);
  CHECK(interchangeable_devices(model).count == 4);
  check_bounds(model);
}

TEST_CASE("more effort never gives a lower bound") {
  for (const Network network : all_networks) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      CAPTURE(static_cast<int>(network), seed);
      Rng rng = Rng::for_task(seed, 31);
      const CommCostModel model = random_model(rng, network, 4, 2);
      const DeviceClasses classes = cluster_devices(model).cut(4);
      // From 200 units of effort on, the bound considers all ranges of synchronization cost.
      double last = 0;
      for (long long effort = 200; effort < 400; ++effort) {
        const double value = composition_bound(model, classes, infinity, effort, {}).value;
        REQUIRE(value >= last);
        last = value;
      }
    }
  }
}

TEST_CASE("a bound that runs out of memory returns the value reached by then") {
  Rng rng = Rng::for_task(2, 0);
  const CommCostModel model = random_model(rng, Network::smooth, 4, 2);
  const double optimum = exhaustive_optimum(model);
  const auto exact = interchangeable_devices(model);
  double last = 0;
  for (const std::size_t bytes : {0u, 20'000u, 50'000u, 100'000u, 10'000'000u}) {
    CAPTURE(bytes);
    const auto bound = composition_bound(model, exact, infinity, unlimited_evaluations, {}, bytes);
    CHECK(bound.value <= optimum * (1 + 1e-12));
    CHECK(bound.value >= last);
    CHECK(bound.complete == (bytes == 10'000'000));
    last = bound.value;
  }
  CHECK(last == Approx(optimum).epsilon(1e-9));
}

TEST_CASE("a bound that is stopped at any point is still a lower bound") {
  Rng rng = Rng::for_task(4, 0);
  const CommCostModel model = random_model(rng, Network::directed, 3, 3);
  const double optimum = exhaustive_optimum(model);
  const auto exact = interchangeable_devices(model);
  double last = 0;
  for (int calls = 0; calls < 2'000; ++calls) {
    int left = calls;
    // The callback requests a stop only once: a search that was asked to stop must not resume.
    const auto stop = [&] { return left-- == 0; };
    const double value = composition_bound(model, exact, infinity, unlimited_evaluations, stop).value;
    REQUIRE(value <= optimum * (1 + 1e-12));
    REQUIRE(value >= last);
    last = value;
  }
}
