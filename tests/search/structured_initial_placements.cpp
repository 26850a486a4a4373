#include "planner/search/comm_cost/structured_initial_placements.hpp"

#include <utility>

#include "tests/support/catch.hpp"
#include "tests/support/random_networks.hpp"
#include "tests/support/search_result.hpp"
#include "tests/support/shipped_model.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::search;

// The optima of tests/cost/comm_cost.cpp: each group has an equal share of every host or region; on spot,
// half of the groups share the large hosts and the other half the single devices.
TEST_CASE("the best structured placement is the optimum of the five cases") {
  for (const auto& [name, optimum] :
       {std::pair{"datacenter", 3.439799129}, std::pair{"spot", 31.634159832},
        std::pair{"universities", 16.086839733}, std::pair{"regional", 34.802041017},
        std::pair{"worldwide", 49.218380053}}) {
    CAPTURE(name);
    CHECK(
        structured_initial_placements(shipped_model(name), {1, nullptr, [] { return false; }}).front().cost ==
        Approx(optimum).epsilon(1e-9));
  }
}

TEST_CASE("structured placements are deployed partitions in order of cost for any size") {
  for (const auto& [stages, replicas] :
       {std::pair{1, 1}, std::pair{1, 7}, std::pair{7, 1}, std::pair{7, 5}, std::pair{5, 7}, std::pair{3, 12},
        std::pair{12, 3}, std::pair{2, 9}, std::pair{17, 2}}) {
    for (const Network network : all_networks) {
      CAPTURE(stages, replicas, static_cast<int>(network));
      Rng rng = Rng::for_task(3, static_cast<std::uint64_t>(network));
      const CommCostModel model = random_model(rng, network, stages, replicas);
      const auto starts = structured_initial_placements(model, {1, nullptr, [] { return false; }});
      REQUIRE_FALSE(starts.empty());
      for (std::size_t i = 0; i < starts.size(); ++i) {
        CHECK(starts[i].placement.stages() == stages);
        CHECK(starts[i].placement.replicas() == replicas);
        CHECK(is_permutation_of_devices(starts[i].placement, model.devices()));
        CHECK(starts[i].cost == comm_cost(model, starts[i].placement).total());
        if (i > 0) CHECK(starts[i].cost > starts[i - 1].cost);
      }
    }
  }
}

// Six devices in three sites of two, in file order. Hops cost nothing within a site and 10 otherwise, and
// synchronization costs nothing: the groups {0, 2, 4} and {1, 3, 5} have all hops within the sites.
TEST_CASE("one structured placement spreads every site over the groups") {
  CommCostModel model = empty_model(2, 3);
  for (int a = 0; a < 6; ++a)
    for (int b = 0; b < 6; ++b) model.hop(a, b) = a / 2 == b / 2 ? 0 : 10;
  CHECK(structured_initial_placements(model, {1, nullptr, [] { return false; }}).front().cost == 0);
}

// The order of 20 groups is determined by a heuristic, which can be stopped early.
TEST_CASE("a stopped generation of placements returns a deployed one") {
  Rng rng = Rng::for_task(6, 0);
  const CommCostModel model = random_model(rng, Network::smooth, 20, 2);
  for (int calls = 0; calls < 400; calls += 7) {
    CAPTURE(calls);
    int left = calls;
    const auto starts = structured_initial_placements(model, {1, nullptr, [&] { return left-- <= 0; }});
    REQUIRE_FALSE(starts.empty());
    for (const DeployedPlacement& start : starts) {
      REQUIRE(is_permutation_of_devices(start.placement, model.devices()));
      CHECK(start.cost == comm_cost(model, start.placement).total());
    }
  }
}
