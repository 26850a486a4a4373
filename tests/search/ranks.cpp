// Tests searches that are divided among ranks: they find what one process finds.
#include "core/base/work.hpp"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/search/comm_cost/strategy.hpp"
#include "planner/search/iteration_time/decisions.hpp"
#include "planner/search/iteration_time/pareto_search.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random_networks.hpp"
#include "tests/support/small_problems.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace dtfm;
using namespace dtfm::search;

namespace {

/// All that a search returns, with exact numbers.
std::string text_of(const std::vector<PlanCandidate>& plans) {
  ByteWriter out;
  for (const PlanCandidate& it : plans) {
    out.put(decisions_key(it.job->problem.job));
    out.put(it.plan.execution.flush);
    for (const Pipeline& pipeline : it.plan.pipelines) {
      out.put(pipeline.micro_batches);
      for (const Stage& stage : pipeline.stages) {
        out.put(stage.layers);
        out.put(stage.devices);
      }
    }
    for (const double number :
         {it.iteration_s, it.deficit_bytes, it.egress_usd, it.score, it.migration.seconds})
      out.put(number);
  }
  return out.bytes();
}

std::string text_of(const IterationSearchResult& result) {
  ByteWriter out;
  out.put(text_of(result.finalists));
  out.put(text_of(result.front));
  out.put(result.evaluations);
  out.put(result.stopped);
  for (const ConvergencePoint& it : result.convergence) {
    out.put(it.evaluations);
    out.put(it.cost);
  }
  return out.bytes();
}

std::string text_of(const SearchResult& result) {
  ByteWriter out;
  out.put(result.placement.devices());
  out.put(result.cost.total());
  out.put(result.evaluations);
  out.put(result.stopped);
  out.put(result.lower_bound.value);
  return out.bytes();
}

/// Compares `search`, given search options, on ranks and alone. Returns how many exchanges there were.
template <class Search>
int check_same_on_ranks(SearchOptions options, const Search& search) {
  const std::string alone = search(options);
  int exchanges = 0;
  for (const int size : {1, 2, 4})
    for (const int threads : {1, 3}) {
      CAPTURE(size, threads);
      options.threads = threads;
      const auto work = [&](RankRun run) {
        SearchOptions own = options;
        own.ranks = &run.ranks;
        std::string found = search(own);
        return std::pair(std::move(found), run.transport.exchanges);
      };
      for (const auto& [found, count] : on_thread_ranks(size, work)) {
        CHECK(found == alone);
        exchanges = count;
      }
    }
  return exchanges;
}

}  // namespace

TEST_CASE("a search by iteration time finds the same on any number of ranks and threads") {
  const Problem problem = undecided_problem();
  for (const auto evaluations : {std::optional<long long>(3000), std::optional<long long>(20'000)}) {
    SearchOptions options;
    options.evaluations = evaluations;
    options.seed = 3;
    const int exchanges = check_same_on_ranks(options, [&](const SearchOptions& common) {
      IterationSearchOptions own;
      own.common = common;
      return text_of(search_iteration(problem, own));
    });
    CHECK(exchanges >= 10);  // of screening, decisions, annealing and evolution
  }
}

TEST_CASE("a warm start finds the same on any number of ranks and threads") {
  Problem problem = undecided_problem();
  IterationSearchOptions first;
  first.common.evaluations = 500;
  const PlanCandidate running = search_iteration(problem, first).finalists.front();
  problem.topology.edit().devices[1].speed = 0.3;
  SearchOptions options;
  options.evaluations = 4000;
  check_same_on_ranks(options, [&](const SearchOptions& common) {
    IterationSearchOptions own;
    own.common = common;
    own.warm = WarmStart{running.plan, running.job->problem.job, 3600};
    return text_of(search_iteration(problem, own));
  });
}

TEST_CASE("a Pareto search finds the same on any number of ranks and threads") {
  const Problem problem = undecided_problem();
  SearchOptions options;
  options.evaluations = 2000;
  check_same_on_ranks(options, [&](const SearchOptions& common) {
    IterationSearchOptions own;
    own.common = common;
    own.keeps_pareto_front = true;
    const ParetoSearch found = search_pareto(problem, own);
    return text_of(found.result) + text_of(found.candidates);
  });
}

TEST_CASE("divided strategies by communication cost find the same on any number of ranks and threads") {
  Rng rng = Rng::for_task(12, 0);  // a model of which no search is proven optimal: only the root would know
  const cost::CommCostModel model = random_model(rng, Network::directed, 4, 3);
  for (const Strategy& strategy : strategies()) {
    if (!strategy.is_divided) continue;
    SearchOptions options;
    options.evaluations = 4000;
    const auto search = [&](const SearchOptions& common) {
      SearchResult result = search_comm_cost(model, strategy.name, common);
      result.lower_bound = {};  // only the root computes it
      return text_of(result);
    };
    CHECK(check_same_on_ranks(options, search) > 2);
  }
}

TEST_CASE("the root finds the same by every strategy as one process, including the bound") {
  Rng rng = Rng::for_task(12, 0);
  const cost::CommCostModel model = random_model(rng, Network::directed, 3, 3);
  for (const Strategy& strategy : strategies()) {
    CAPTURE(strategy.name);
    SearchOptions options;
    options.evaluations = 300;
    options.prove = true;
    const std::string alone = text_of(search_comm_cost(model, strategy.name, options));
    const auto on_rank = [&](RankRun run) {
      SearchOptions own = options;
      own.ranks = &run.ranks;
      return text_of(search_comm_cost(model, strategy.name, own));
    };
    CHECK(on_thread_ranks(2, on_rank).front() == alone);
  }
}

TEST_CASE("a time limit ends the search of all ranks after the same steps") {
  const Problem problem = undecided_problem();
  for (const double limit : {1e-6, 0.05, 0.3}) {
    CAPTURE(limit);
    const auto work = [&](RankRun run) {
      IterationSearchOptions own;
      own.common.time_limit = limit;
      own.common.ranks = &run.ranks;
      const IterationSearchResult found = search_iteration(problem, own);
      return std::tuple(text_of(found), found.stopped, run.ranks.is_broken());
    };
    const auto found = on_thread_ranks(3, work);
    for (const auto& [text, stopped, is_broken] : found) {
      CHECK(text == std::get<0>(found.front()));
      CHECK(name_of(stopped) == "time-limit");
      CHECK_FALSE(is_broken);
    }
  }
}

TEST_CASE("a search that is stopped because a rank was lost returns a plan") {
  const Problem problem = undecided_problem();
  for (const int lost_in : {2, 3, 8, 15}) {
    CAPTURE(lost_in);
    const auto work = [&](RankRun run) {
      IterationSearchOptions own;
      own.common.ranks = &run.ranks;
      own.common.stop = [&] { return run.ranks.is_broken(); };
      const IterationSearchResult found = search_iteration(problem, own);
      return std::pair(found.stopped, found.finalists.front().deficit_bytes <= 0);
    };
    for (const auto& it : on_thread_ranks(3, work, lost_in))
      CHECK(it == std::pair(Stopped::interrupted, true));
  }
}
