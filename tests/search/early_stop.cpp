// Checks that a search that is stopped early still has a result.
#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "planner/search/comm_cost/search_run.hpp"
#include "planner/search/comm_cost/strategy.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random_networks.hpp"
#include "tests/support/search_result.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::search;

namespace {

CommCostModel irregular_model(int stages, int replicas) {
  Rng rng = Rng::for_task(5, 0);
  return random_model(rng, Network::smooth, stages, replicas);
}

/// Returns a model that is too large to be searched instantly, but still feasible for `exhaustive`: 15! /
/// (3!⁵ 5!) = 1,401,400 partitions.
CommCostModel long_search(std::string_view strategy) {
  return strategy == "exhaustive" ? irregular_model(5, 3) : irregular_model(6, 6);
}

bool places_directly(std::string_view strategy) {
  return strategy == "identity" || strategy == "megatron";
}

/// Checks that an iterative strategy is stopped and that a one-shot strategy completes.
void check_early_stop(std::string_view strategy, const SearchOptions& options, Stopped stopped) {
  const CommCostModel model = long_search(strategy);
  const SearchResult result = search_comm_cost(model, strategy, options);
  check_result(model, result);
  CHECK(result.stopped == (places_directly(strategy) ? Stopped::complete : stopped));
}

}  // namespace

TEST_CASE("every strategy interrupted before it begins still returns a placement") {
  SearchOptions options;
  options.stop = [] { return true; };
  for (const Strategy& strategy : strategies()) {
    for (const bool prove : {false, true}) {
      INFO(strategy.name << ", prove " << prove);
      options.prove = prove;
      check_early_stop(strategy.name, options, Stopped::interrupted);
    }
  }
}

TEST_CASE("an interrupted search stops soon and keeps its best placement") {
  for (const char* name : {"evolutionary", "genetic", "kernighan-lin", "random", "exhaustive"}) {
    CAPTURE(name);
    const CommCostModel model = long_search(name);
    std::atomic<bool> interrupted = false;
    double best = 0;
    SearchOptions options;
    options.stop = [&] { return interrupted.load(); };
    options.evaluations = 1'000'000'000;
    options.on_progress = [&](const Progress& progress) {
      best = progress.best;
      interrupted = true;
    };
    const SearchResult result = search_comm_cost(model, name, options);
    check_result(model, result);
    CHECK(result.stopped == Stopped::interrupted);
    CHECK(result.cost.total() <= best * (1 + 1e-9));
    CHECK(result.evaluations < 20'000);
  }
}

TEST_CASE("a proven optimum stays proven after an interrupt") {
  SearchOptions options;
  options.stop = [] { return true; };
  const CommCostModel model = irregular_model(1, 6);  // with one stage there is only one partition
  for (const Strategy& strategy : strategies()) {
    INFO(strategy.name);
    const SearchResult result = search_comm_cost(model, strategy.name, options);
    check_result(model, result);
    CHECK((result.stopped == Stopped::optimal || result.stopped == Stopped::complete));
  }
}

TEST_CASE("a time limit ends every iterative strategy") {
  SearchOptions options;
  options.time_limit = 0.05;
  for (const Strategy& strategy : strategies()) {
    for (const int threads : {1, 2}) {
      INFO(strategy.name << ", threads " << threads);
      options.threads = threads;
      check_early_stop(strategy.name, options, Stopped::time_limit);
    }
  }
}

TEST_CASE("progress is reported with plausible values") {
  for (const char* name : {"evolutionary", "genetic", "kernighan-lin", "random", "exhaustive"}) {
    for (const bool prove : {false, true}) {
      CAPTURE(name, prove);
      const CommCostModel model = irregular_model(4, 3);  // 12! / (3!⁴ 4!) = 15,400 partitions
      std::vector<Progress> reports;
      SearchOptions options;
      options.evaluations = 2'000;
      options.prove = prove;
      options.on_progress = [&](const Progress& progress) { reports.push_back(progress); };
      const SearchResult result = search_comm_cost(model, name, options);
      REQUIRE_FALSE(reports.empty());
      for (std::size_t i = 0; i < reports.size(); ++i) {
        const Progress& now = reports[i];
        CHECK(now.evaluations >= 1);
        CHECK(now.evaluations <= result.evaluations);
        CHECK((now.budget == 0 || now.budget == 2'000));
        CHECK(now.best >= result.cost.total() * (1 - 1e-9));
        CHECK(now.lower_bound >= 0);
        CHECK(now.lower_bound <= now.best * (1 + 1e-9));
        if (i == 0) continue;
        CHECK(now.evaluations >= reports[i - 1].evaluations);
        CHECK(now.best <= reports[i - 1].best);
        CHECK(now.lower_bound >= reports[i - 1].lower_bound);
      }
    }
  }
}

TEST_CASE("with only a time limit the budget is reported as unlimited") {
  const CommCostModel model = irregular_model(6, 6);
  SearchOptions options;
  options.time_limit = 0.05;
  int reports = 0;
  options.on_progress = [&](const Progress& progress) {
    ++reports;
    CHECK(progress.budget == 0);
  };
  search_comm_cost(model, "random", options);
  CHECK(reports > 0);
}

TEST_CASE("half of a time limit is reserved for the proof and time before the search counts") {
  const CommCostModel model = irregular_model(6, 6);
  SearchOptions options;
  options.time_limit = 100'000;
  options.begin = std::chrono::steady_clock::now() - std::chrono::seconds(60'000);
  CHECK_FALSE(SearchRun(model, options).must_stop());
  options.prove = true;
  SearchRun run(model, options);
  CHECK(run.must_stop());
  run.use_full_time_limit();
  CHECK_FALSE(run.must_stop());
}

TEST_CASE("an interrupt while the bound is computed is reported") {
  const CommCostModel model = irregular_model(6, 6);
  std::atomic<bool> interrupted = false;
  SearchOptions options;
  options.stop = [&] { return interrupted.load(); };
  options.evaluations = 64;
  options.prove = true;
  options.on_progress = [&](const Progress& progress) { interrupted = progress.evaluations >= 64; };
  const SearchResult result = search_comm_cost(model, "random", options);
  check_result(model, result);
  CHECK(result.evaluations == 64);
  CHECK(result.stopped == Stopped::interrupted);
}
