// What a search prices, what ends it, and that more of it finds nothing worse.
#include <algorithm>
#include <atomic>
#include <limits>

#include "planner/search/iteration_time/iteration_search.hpp"
#include "planner/search/iteration_time/pareto_search.hpp"
#include "planner/search/iteration_time/pareto_front.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::search;

namespace {

/// Unlike devices, with prices; everything is open that these layers allow.
Problem undecided_problem() {
  Problem problem{flat_topology({3, 3, 2}, link_of(0.01, 100), link_of(0.1, 25)), chain_job(6, 10, 100), {}};
  problem.job.training.global_batch = 12;
  problem.topology.devices[4].speed = 0.7;
  for (Device& device : problem.topology.devices) device.price = DollarsPerHour(device.site + 1);
  Automatic& open = problem.job.automatic;
  open.schedule = open.gradient_sync = open.micro_batch = true;
  return problem;
}

Problem tiny_problem(int devices) {
  Problem problem{flat_topology({devices}, link_of(0.01, 100), link_of(0.1, 25)), chain_job(3, 10, 100), {}};
  problem.topology.devices[0].speed = 0.7;
  for (Device& device : problem.topology.devices) device.price = DollarsPerHour(1);
  problem.job.training.global_batch = 4;
  return problem;
}

}  // namespace

TEST_CASE("a longer search of the same seed finds nothing worse, and prices no more than it may") {
  const Problem problem = undecided_problem();
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    double best = std::numeric_limits<double>::infinity();
    long long priced = 0;
    for (const long long most : {1, 200, 1000, 3000, 5000, 9000, 20'000, 50'000}) {
      CAPTURE(seed, most);
      IterationSearchOptions options;
      options.common.seed = seed;
      options.common.evaluations = most;
      const IterationSearchResult found = search_iteration(problem, options);
      CHECK(found.finalists.front().deficit_bytes <= 0);
      CHECK(found.finalists.front().score <= best);
      if (most > 1) {
        CHECK(found.evaluations <= most);
        CHECK(found.evaluations > most / 2);
      }
      CHECK(found.evaluations > priced);
      best = found.finalists.front().score;
      priced = found.evaluations;
      options.common.threads = 3;
      const IterationSearchResult other = search_iteration(problem, options);
      CHECK(other.evaluations == found.evaluations);
      CHECK(other.finalists.front().plan == found.finalists.front().plan);
    }
  }
}

TEST_CASE("every plan that is priced is counted") {
  // One device: one shape, one layout. Coarse and near the best it is priced as it is, begun to be fitted,
  // with its layers split and with its micro-batches dealt; then annealing prices its start and can move
  // nothing.
  const Problem problem = tiny_problem(1);
  IterationSearchOptions options;
  CHECK(search_iteration(problem, options).evaluations == 2 * 4 + 1);
  options.common.evaluations = 1'000'000'000;  // there is nothing to go on with
  CHECK(search_iteration(problem, options).evaluations == 2 * 4 + 1);
  options.common.evaluations = 5;
  CHECK(search_iteration(problem, options).evaluations == 4);
}

TEST_CASE("the least budget goes on until a plan fits") {
  // Of 2,000 B, a layer's state takes 160 B and what a micro-batch keeps of it 100 B: all 16 layers fit no
  // device, but three stages of a pipeline.
  Problem problem{flat_topology({4}, link_of(0.01, 100), link_of(0.1, 25)), chain_job(16, 10, 100), {}};
  problem.topology.gpus[0].memory = Bytes(2000);
  IterationSearchOptions options;
  options.common.evaluations = 1;
  const IterationSearchResult found = search_iteration(problem, options);
  CHECK(found.finalists.front().deficit_bytes <= 0);
  CHECK(found.finalists.front().shape().stages >= 3);
}

TEST_CASE("with a time limit a search goes on after what it does without one, and finds nothing worse") {
  const Problem problem = undecided_problem();
  const IterationSearchResult alone = search_iteration(problem, {});
  std::atomic<bool> interrupted = false;
  IterationSearchOptions options;
  options.common.time_limit = 1e6;  // s: the interrupt comes first
  options.common.interrupted = &interrupted;
  options.common.on_progress = [&](const Progress& progress) {
    CHECK(progress.budget == 0);
    interrupted = progress.evaluations > 2 * alone.evaluations;
  };
  const IterationSearchResult longer = search_iteration(problem, options);
  CHECK(longer.evaluations > alone.evaluations);
  CHECK(longer.finalists.front().score <= alone.finalists.front().score);
}

TEST_CASE("with a time limit a front goes on, and every point has one that is as good in everything") {
  const Problem problem = tiny_problem(3);
  const ParetoSearch alone = search_pareto(problem, {});
  std::atomic<bool> interrupted = false;
  IterationSearchOptions options;
  options.common.time_limit = 1e6;
  options.common.interrupted = &interrupted;
  options.common.on_progress = [&](const Progress& progress) {
    interrupted = progress.evaluations > alone.evaluations * 5 / 4;
  };
  const ParetoSearch longer = search_pareto(problem, options);
  CHECK(longer.evaluations > alone.evaluations);
  for (const PlanCandidate& it : alone.candidates) {
    const PlanObjectives measure = plan_objectives(it, it.plan);
    CHECK(std::any_of(longer.candidates.begin(), longer.candidates.end(), [&](const PlanCandidate& other) {
      const PlanObjectives now = plan_objectives(other, other.plan);
      return now == measure || dominates(now, measure);
    }));
  }
}

TEST_CASE("a search that has nothing to go on with has not been stopped by its budget") {
  IterationSearchOptions options;
  options.common.evaluations = 1'000'000'000;
  CHECK(search_iteration(tiny_problem(1), options).stopped == Stopped::converged);
  options.common.evaluations = 100;
  CHECK(search_iteration(undecided_problem(), options).stopped == Stopped::evaluations);
}

TEST_CASE("the least time goes on until a plan fits") {
  // As above: of all shapes, the first ones fit no device.
  Problem problem{flat_topology({4}, link_of(0.01, 100), link_of(0.1, 25)), chain_job(16, 10, 100), {}};
  problem.topology.gpus[0].memory = Bytes(2000);
  IterationSearchOptions options;
  options.common.time_limit = 1e-9;
  const IterationSearchResult found = search_iteration(problem, options);
  CHECK(found.finalists.front().deficit_bytes <= 0);
  CHECK(found.stopped == Stopped::time_limit);
}
