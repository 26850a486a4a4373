// Tests the guarantees of each strategy on networks so small that every partition can be evaluated.
#include "planner/search/comm_cost/strategy.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/exhaustive.hpp"
#include "tests/support/random_networks.hpp"
#include "tests/support/search_result.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::search;

namespace {

using Shape = std::pair<int, int>;  // stages, replicas

const std::vector<Shape> small_shapes{{2, 2}, {3, 2}, {4, 2}, {2, 3}, {3, 3}, {2, 4}};

SearchOptions search_options(std::uint64_t seed, long long evaluations) {
  SearchOptions options;
  options.seed = seed;
  options.evaluations = evaluations;
  return options;
}

CommCostModel model_of(std::uint64_t seed, Network network, const Shape& shape) {
  Rng rng = Rng::for_task(seed, static_cast<std::uint64_t>(network));
  return random_model(rng, network, shape.first, shape.second);
}

long long factorial(int n) {
  return n < 2 ? 1 : n * factorial(n - 1);
}

/// Returns n! / (replicas!^stages · stages!).
long long partitions(const Shape& shape) {
  long long count = factorial(shape.first * shape.second) / factorial(shape.first);
  for (int stage = 0; stage < shape.first; ++stage) count /= factorial(shape.second);
  return count;
}

}  // namespace

TEST_CASE("there are seven strategies and the default is first") {
  std::vector<std::string> names;
  for (const Strategy& strategy : strategies()) {
    names.emplace_back(strategy.name);
    CHECK_FALSE(strategy.summary.empty());
  }
  CHECK(names == std::vector<std::string>{"evolutionary", "genetic", "kernighan-lin", "random", "exhaustive",
                                          "identity", "megatron"});
  CHECK(names.front() == default_strategy);
}

TEST_CASE("an unknown strategy is an error that lists the known ones") {
  const CommCostModel model = model_of(0, Network::smooth, {2, 2});
  const std::string error = error_message([&] { search_comm_cost(model, "annealing", {}); });
  CHECK_THAT(error, contains("`annealing`"));
  for (const Strategy& strategy : strategies()) CHECK_THAT(error, contains(std::string(strategy.name)));
}

TEST_CASE("the number of evaluations limits a search only if it was requested") {
  const CommCostModel model = model_of(0, Network::smooth, {4, 3});
  for (const char* name : {"genetic", "kernighan-lin", "random"}) {
    CAPTURE(name);
    CHECK(search_comm_cost(model, name, {}).stopped != Stopped::evaluations);
    SearchOptions options;
    options.evaluations = 3;
    const Stopped stopped = search_comm_cost(model, name, options).stopped;
    CHECK((stopped == Stopped::evaluations || stopped == Stopped::optimal));
  }
}

// Devices 0 … 5 in 3 stages × 2 replicas, row = stage. `identity` fills pipeline 0 with 0, 1, 2: device k is
// stage k mod 3 of pipeline k div 3. `megatron` fills stage 0 with 0, 1: device k is replica k mod 2 of stage
// k div 2.
TEST_CASE("identity and megatron place devices in file order and deploy them unchanged") {
  for (const Network network : all_networks) {
    const CommCostModel model = model_of(3, network, {3, 2});
    CAPTURE(static_cast<int>(network));
    for (const auto& [name, devices] : {std::pair{"identity", std::vector<int>{0, 3, 1, 4, 2, 5}},
                                        std::pair{"megatron", std::vector<int>{0, 1, 2, 3, 4, 5}}}) {
      CAPTURE(name);
      const SearchResult result = search_comm_cost(model, name, {});
      CHECK(result.placement.devices() == devices);
      CHECK(result.evaluations == 1);
      CHECK(result.stopped == Stopped::complete);
      check_result(model, result);
    }
  }
}

// a = 0, b = 1, c = 2, d = 3. Synchronization: ab 1, cd 2, ac 4, bd 8; hops: ac 16, bd 32, ab 64, cd 128; all
// others 1000. With stages ab, cd (megatron): max(1, 2) + max(ac, bd) = 2 + 32. With pipelines ab, cd
// (identity), stages are ac, bd: max(4, 8) + max(ab, cd) = 8 + 128.
TEST_CASE("identity and megatron have the costs derived by hand") {
  CommCostModel model = empty_model(2, 2);
  const auto set = [](Eigen::MatrixXd& matrix, int a, int b, double value) {
    matrix(a, b) = matrix(b, a) = value;
  };
  for (auto* matrix : {&model.sync, &model.hop})
    for (int a = 0; a < 4; ++a)
      for (int b = 0; b < a; ++b) set(*matrix, a, b, 1000);
  set(model.sync, 0, 1, 1), set(model.sync, 2, 3, 2), set(model.sync, 0, 2, 4), set(model.sync, 1, 3, 8);
  set(model.hop, 0, 2, 16), set(model.hop, 1, 3, 32), set(model.hop, 0, 1, 64), set(model.hop, 2, 3, 128);
  CHECK(search_comm_cost(model, "megatron", {}).cost.data_parallel == 2);
  CHECK(search_comm_cost(model, "megatron", {}).cost.pipeline_parallel == 32);
  CHECK(search_comm_cost(model, "identity", {}).cost.data_parallel == 8);
  CHECK(search_comm_cost(model, "identity", {}).cost.pipeline_parallel == 128);
}

// 4! / (2!² 2!) = 3, 6! / (2!³ 3!) = 15, 8! / (2!⁴ 4!) = 105, 6! / (3!² 2!) = 10, 9! / (3!³ 3!) = 280,
// 8! / (4!² 2!) = 35.
TEST_CASE("exhaustive evaluates every partition once and finds the minimum by definition") {
  const std::vector<long long> counts{3, 15, 105, 10, 280, 35};
  for (std::size_t i = 0; i < small_shapes.size(); ++i) {
    REQUIRE(partitions(small_shapes[i]) == counts[i]);
    for (const Network network : all_networks) {
      const auto [stages, replicas] = small_shapes[i];
      CAPTURE(stages, replicas, static_cast<int>(network));
      const CommCostModel model = model_of(7, network, small_shapes[i]);
      const SearchResult result = search_comm_cost(model, "exhaustive", {});
      check_result(model, result);
      CHECK(result.evaluations == counts[i]);
      CHECK(result.stopped == Stopped::complete);
      CHECK(result.cost.total() == Approx(exhaustive_optimum(model)).epsilon(1e-12));
      CHECK(result.lower_bound.value == result.cost.total());
    }
  }
}

// 16! / (4!⁴ 4!) = 2,627,625 is more than two million.
TEST_CASE("exhaustive rejects more partitions than it can evaluate") {
  const CommCostModel model = model_of(0, Network::smooth, {4, 4});
  CHECK(error_message([&] { search_comm_cost(model, "exhaustive", search_options(0, 10)); }) ==
        "--strategy exhaustive: 4 × 4 devices have 2.63e+06 partitions, more than 2000000; use the default "
        "strategy with --prove");
}

TEST_CASE("exhaustive proves nothing if the order of the stages is heuristic") {
  // 20 groups of one device are one partition; its 20! / 2 orders are not all evaluated.
  const SearchResult result =
      search_comm_cost(model_of(3, Network::smooth, {20, 1}), "exhaustive", search_options(0, 10));
  CHECK(result.lower_bound.method != "every partition was evaluated");
  CHECK(result.lower_bound.value < result.cost.total());
}

TEST_CASE("no strategy is below the exhaustive optimum and the default one reaches it") {
  const auto network = GENERATE(from_range(all_networks));
  for (const Shape& shape : small_shapes) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      INFO("network " << static_cast<int>(network) << ", " << shape.first << " × " << shape.second
                      << ", seed " << seed);
      const CommCostModel model = model_of(seed, network, shape);
      const double optimum = search_comm_cost(model, "exhaustive", {}).cost.total();
      for (const char* name : {"random", "genetic", "kernighan-lin", "evolutionary"}) {
        CAPTURE(name);
        const SearchResult result = search_comm_cost(model, name, search_options(seed, 150));
        check_result(model, result);
        CHECK(result.cost.total() >= optimum * (1 - 1e-12));
        CHECK(result.lower_bound.value <= optimum * (1 + 1e-12));
      }
      const SearchResult best = search_comm_cost(model, default_strategy, search_options(seed, 20'000));
      CHECK(best.cost.total() == Approx(optimum).epsilon(1e-9));
    }
  }
}

// Annealing proceeds in steps of 256 swaps on each of 8 islands, so the evolutionary strategy may exceed its
// evaluations by 8 · 256 − 1. It evaluates an initial solution for each island before it first checks.
TEST_CASE("the evaluation budget is kept") {
  const CommCostModel model = model_of(1, Network::smooth, {5, 4});
  for (const char* name : {"random", "genetic", "kernighan-lin"}) {
    for (const long long budget : {1LL, 65LL, 100LL, 250LL}) {
      CAPTURE(name, budget);
      const SearchResult result = search_comm_cost(model, name, search_options(0, budget));
      check_result(model, result);
      CHECK(result.evaluations == budget);
      CHECK(result.stopped == Stopped::evaluations);
    }
  }
  for (const long long budget : {1LL, 9LL, 2057LL, 10'000LL}) {
    CAPTURE(budget);
    const SearchResult result = search_comm_cost(model, "evolutionary", search_options(0, budget));
    check_result(model, result);
    CHECK(result.evaluations >= budget);
    CHECK(result.evaluations <= std::max(8LL, budget + 8 * 256 - 1));
    CHECK(result.stopped == Stopped::evaluations);
  }
}

TEST_CASE("exhaustive keeps the evaluation budget and is complete if it suffices") {
  const CommCostModel model = model_of(1, Network::smooth, {4, 2});  // 105 partitions
  for (const long long budget : {1LL, 50LL, 104LL, 105LL, 106LL}) {
    CAPTURE(budget);
    const SearchResult result = search_comm_cost(model, "exhaustive", search_options(0, budget));
    check_result(model, result);
    CHECK(result.evaluations == std::min(budget, 105LL));
    CHECK((result.stopped == Stopped::complete) == (budget >= 105));
  }
}

TEST_CASE("one stage or one replica or one device works for every strategy") {
  for (const Strategy& strategy : strategies()) {
    for (const Shape& shape : {Shape{1, 1}, Shape{1, 2}, Shape{2, 1}, Shape{1, 6}, Shape{6, 1}}) {
      for (const Network network : {Network::smooth, Network::ties, Network::directed}) {
        for (const bool prove : {false, true}) {
          const std::string name{strategy.name};
          CAPTURE(name, shape.first, shape.second, static_cast<int>(network), prove);
          const CommCostModel model = model_of(2, network, shape);
          SearchOptions options = search_options(0, 1000);
          options.prove = prove;
          const SearchResult result = search_comm_cost(model, strategy.name, options);
          check_result(model, result);
          if (shape.first == 1) CHECK(result.cost.pipeline_parallel == 0);
          if (shape.second == 1) CHECK(result.cost.data_parallel == 0);
          if (prove && name == default_strategy) CHECK(result.stopped == Stopped::optimal);
        }
      }
    }
  }
}

TEST_CASE("every strategy handles a network without costs") {
  for (const Strategy& strategy : strategies()) {
    const std::string name{strategy.name};
    CAPTURE(name);
    const CommCostModel model = empty_model(3, 2);
    const SearchResult result = search_comm_cost(model, strategy.name, search_options(0, 200));
    check_result(model, result);
    CHECK(result.cost.total() == 0);
  }
}

// Sites whose links are not round numbers: a cost that was updated swap by swap differs by rounding from the
// same cost computed anew.
TEST_CASE("the convergence curve ends at the cost of the result despite rounding by swaps") {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 5);
    CommCostModel model = empty_model(4, 4);
    const std::vector<int> site = random_sites(rng, 16, true);
    for (Eigen::MatrixXd* matrix : {&model.sync, &model.hop})
      *matrix = by_site(site, symmetric_table(16, [&](int, int) { return 1 + rng.uniform(); }));
    for (const char* name : {"evolutionary", "genetic", "random"}) {
      CAPTURE(name);
      const SearchResult result =
          search_comm_cost(model, name, search_options(seed, 20'000 / (name[0] == 'e' ? 1 : 50)));
      check_result(model, result);
    }
  }
}

TEST_CASE("exhaustive with too small a budget does not report a false bound") {
  for (const Network network : all_networks) {
    const CommCostModel model = model_of(1, network, {4, 2});  // 105 partitions
    const double optimum = exhaustive_optimum(model);
    for (const long long budget : {1LL, 50LL, 104LL}) {
      CAPTURE(static_cast<int>(network), budget);
      SearchOptions options = search_options(0, budget);
      options.prove = true;
      const SearchResult result = search_comm_cost(model, "exhaustive", options);
      check_result(model, result);
      CHECK(result.evaluations == budget);
      CHECK(result.stopped != Stopped::complete);
      CHECK(result.lower_bound.method != "every partition was evaluated");
      CHECK(result.lower_bound.value <= optimum * (1 + 1e-12));
      if (result.stopped == Stopped::optimal) CHECK(result.cost.total() == Approx(optimum).epsilon(1e-9));
    }
  }
}
