// Checks that the same seed gives bitwise equal results for any number of threads.
#include <bit>
#include <string>

#include "planner/search/comm_cost/strategy.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random_networks.hpp"
#include "tests/support/search_result.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::search;

namespace {

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

void check_same(const SearchResult& a, const SearchResult& b) {
  CHECK(a.placement == b.placement);
  CHECK(same_bits(a.cost.data_parallel, b.cost.data_parallel));
  CHECK(same_bits(a.cost.pipeline_parallel, b.cost.pipeline_parallel));
  CHECK(a.evaluations == b.evaluations);
  CHECK(a.stopped == b.stopped);
  CHECK(same_bits(a.lower_bound.value, b.lower_bound.value));
  CHECK(a.lower_bound.method == b.lower_bound.method);
  REQUIRE(a.convergence.size() == b.convergence.size());
  for (std::size_t i = 0; i < a.convergence.size(); ++i) {
    CHECK(a.convergence[i].evaluations == b.convergence[i].evaluations);
    CHECK(same_bits(a.convergence[i].cost, b.convergence[i].cost));
  }
}

/// Returns an irregular network in which both directions of every pair have links of their own.
CommCostModel irregular_model(int stages, int replicas) {
  Rng rng = Rng::for_task(11, 0);
  return random_model(rng, Network::directed, stages, replicas);
}

SearchResult result_of(const CommCostModel& model, std::string_view strategy, std::uint64_t seed,
                       int threads) {
  SearchOptions options;
  options.seed = seed;
  options.threads = threads;
  options.evaluations = strategy == default_strategy ? 8'000 : 150;
  return search_comm_cost(model, strategy, options);
}

}  // namespace

TEST_CASE("every strategy gives the same result for any number of threads") {
  for (const Strategy& strategy : strategies()) {
    const CommCostModel model = irregular_model(4, 3);
    const std::uint64_t seed = 7;
    const SearchResult alone = result_of(model, strategy.name, seed, 1);
    check_result(model, alone);
    for (const int threads : {1, 2, 3, 8}) {
      INFO(strategy.name << ", seed " << seed << ", threads " << threads);
      check_same(alone, result_of(model, strategy.name, seed, threads));
    }
  }
}

TEST_CASE("a search with a proof phase gives the same result for any number of threads") {
  const CommCostModel model = irregular_model(3, 3);
  SearchOptions options;
  options.prove = true;
  options.evaluations = 3'000;
  const SearchResult alone = search_comm_cost(model, default_strategy, options);
  CHECK(alone.stopped == Stopped::optimal);
  for (const int threads : {2, 3, 8}) {
    CAPTURE(threads);
    options.threads = threads;
    check_same(alone, search_comm_cost(model, default_strategy, options));
  }
}

TEST_CASE("different seeds try different placements") {
  const CommCostModel model = irregular_model(5, 2);
  for (const char* name : {"random", "genetic", "kernighan-lin"}) {
    CAPTURE(name);
    SearchOptions options;
    options.evaluations = 1;
    const SearchResult first = search_comm_cost(model, name, options);
    for (std::uint64_t seed = 1; seed < 5; ++seed) {
      CAPTURE(seed);
      options.seed = seed;
      const SearchResult other = search_comm_cost(model, name, options);
      CHECK(other.placement != first.placement);
      CHECK(other.cost.total() != first.cost.total());
    }
  }
}
