// Tests what a search evaluates, what ends it, and that a larger budget finds nothing worse.
#include <algorithm>
#include <atomic>
#include <limits>

#include "planner/search/iteration_time/decisions.hpp"
#include "planner/search/iteration_time/initial_plans.hpp"
#include "planner/search/iteration_time/iteration_search.hpp"
#include "planner/search/iteration_time/pareto_front.hpp"
#include "planner/search/iteration_time/pareto_search.hpp"
#include "planner/search/iteration_time/plan_anneal.hpp"
#include "planner/search/iteration_time/search_effort.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::search;

namespace {

Problem tiny_problem(int devices) {
  Problem problem{flat_topology({devices}, link_of(0.01, 100), link_of(0.1, 25)), chain_job(3, 10, 100), {}};
  problem.topology.edit().devices[0].speed = 0.7;
  for (Device& device : problem.topology.edit().devices) device.price = DollarsPerHour(1);
  problem.job.training.global_batch = 4;
  return problem;
}

}  // namespace

TEST_CASE("a longer search with the same seed finds nothing worse and keeps its evaluation budget") {
  const Problem problem = undecided_problem();
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    double best = std::numeric_limits<double>::infinity();
    long long previous_evaluations = 0;
    for (const long long max_evaluations : {1, 200, 1000, 3000, 5000, 9000, 20'000, 50'000}) {
      CAPTURE(seed, max_evaluations);
      IterationSearchOptions options;
      options.common.seed = seed;
      options.common.evaluations = max_evaluations;
      const IterationSearchResult found = search_iteration(problem, options);
      CHECK(found.finalists.front().deficit_bytes <= 0);
      CHECK(found.finalists.front().score <= best);
      if (max_evaluations > 1) {
        CHECK(found.evaluations <= max_evaluations);
        CHECK(found.evaluations > max_evaluations / 2);
      }
      CHECK(found.evaluations > previous_evaluations);
      best = found.finalists.front().score;
      previous_evaluations = found.evaluations;
      options.common.threads = 3;
      const IterationSearchResult other = search_iteration(problem, options);
      CHECK(other.evaluations == found.evaluations);
      CHECK(other.finalists.front().plan == found.finalists.front().plan);
    }
  }
}

TEST_CASE("every evaluated plan is counted") {
  // One device has one shape and one layout. In coarse screening and again near the best, it is evaluated as
  // it is, before fitting, with its layers split, and with its micro-batches distributed. Annealing then
  // evaluates its initial solution and has no possible move.
  const Problem problem = tiny_problem(1);
  IterationSearchOptions options;
  CHECK(search_iteration(problem, options).evaluations == 2 * 4 + 1);
  options.common.evaluations = 1'000'000'000;  // the search has nothing left to evaluate
  CHECK(search_iteration(problem, options).evaluations == 2 * 4 + 1);
  options.common.evaluations = 5;
  CHECK(search_iteration(problem, options).evaluations == 4);
}

TEST_CASE("the smallest budget is extended until a plan fits in memory") {
  // Of 2,000 B, the state of a layer takes 160 B and its activations 100 B per micro-batch: no device fits
  // all 16 layers, but a pipeline of three stages does.
  Problem problem{flat_topology({4}, link_of(0.01, 100), link_of(0.1, 25)), chain_job(16, 10, 100), {}};
  problem.topology.edit().gpus[0].memory = Bytes(2000);
  IterationSearchOptions options;
  options.common.evaluations = 1;
  const IterationSearchResult found = search_iteration(problem, options);
  CHECK(found.finalists.front().deficit_bytes <= 0);
  CHECK(found.finalists.front().shape().stages >= 3);
}

TEST_CASE("a search ends after few evaluations if no plan fits in memory") {
  // The bound does not rule a plan out: 16 layers of 260 B on 4 devices need 4,160 B. But 3 layers have 780
  // B, and 4 have 1,040 B and need another 100 B at the boundary of a stage.
  Problem problem{flat_topology({4}, link_of(0.01, 100), link_of(0.1, 25)), chain_job(16, 10, 100), {}};
  problem.topology.edit().gpus[0].memory = Bytes(1050);
  problem.job.training.global_batch = 4;
  problem.job.automatic = {Setting::schedule, Setting::gradient_sync, Setting::micro_batch};
  for (const auto given : {std::optional<long long>(), std::optional(2'000LL), std::optional(10LL)}) {
    IterationSearchOptions options;
    options.common.evaluations = given;
    const IterationSearchResult found = search_iteration(problem, options);
    CHECK_FALSE(found.shortage);
    CHECK(found.stopped == Stopped::no_fit);
    REQUIRE(found.finalists.size() == 1);
    CHECK(found.finalists.front().deficit_bytes > 0);
    CHECK(found.evaluations <=
          std::max(min_evaluations, given.value_or(max_unfit_evaluations(problem.topology->size()))));
    options.common.threads = 3;
    CHECK(search_iteration(problem, options).evaluations == found.evaluations);
  }
}

TEST_CASE("a search for a job that no plan can fit evaluates few plans and says why") {
  Problem problem = undecided_problem();
  problem.topology.edit().gpus[0].memory = Bytes(100);  // 8 devices, and 6 layers of 160 B and 100 B
  const IterationSearchResult found = search_iteration(problem, {});
  REQUIRE(found.shortage);
  CHECK(found.shortage->needed_bytes > found.shortage->available_bytes);
  CHECK(found.stopped == Stopped::no_fit);
  CHECK(found.evaluations < 500);
  REQUIRE(found.finalists.size() == 1);
  CHECK(found.finalists.front().deficit_bytes > 0);
}

TEST_CASE("a search that only finds a plan that fits ends with it") {
  Problem problem = undecided_problem();
  IterationSearchOptions options;
  options.only_fits = true;
  const IterationSearchResult found = search_iteration(problem, options);
  CHECK(found.finalists.front().deficit_bytes <= 0);
  CHECK(found.evaluations < 500);
}

TEST_CASE("with a time limit a search continues after its normal end and finds nothing worse", "[serial]") {
  const Problem problem = undecided_problem();
  const IterationSearchResult alone = search_iteration(problem, {});
  std::atomic<bool> interrupted = false;
  IterationSearchOptions options;
  options.common.time_limit = 1e6;  // in seconds; the interrupt comes first
  options.common.stop = [&] { return interrupted.load(); };
  options.common.on_progress = [&](const Progress& progress) {
    CHECK(progress.budget == 0);
    interrupted = progress.evaluations > 2 * alone.evaluations;
  };
  const IterationSearchResult longer = search_iteration(problem, options);
  CHECK(longer.evaluations > alone.evaluations);
  CHECK(longer.finalists.front().score <= alone.finalists.front().score);
}

TEST_CASE("with a time limit a Pareto search continues and no point gets worse in any objective",
          "[serial]") {
  const Problem problem = tiny_problem(3);
  const ParetoSearch alone = search_pareto(problem, {});
  std::atomic<bool> interrupted = false;
  IterationSearchOptions options;
  options.common.time_limit = 1e6;
  options.common.stop = [&] { return interrupted.load(); };
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

TEST_CASE("a search with nothing left to try has converged rather than exhausted its budget") {
  IterationSearchOptions options;
  options.common.evaluations = 1'000'000'000;
  CHECK(search_iteration(tiny_problem(1), options).stopped == Stopped::converged);
  options.common.evaluations = 100;
  CHECK(search_iteration(undecided_problem(), options).stopped == Stopped::evaluations);
}

TEST_CASE("the shortest time limit is extended until a plan fits in memory") {
  // As above, the first shapes do not fit any device.
  Problem problem{flat_topology({4}, link_of(0.01, 100), link_of(0.1, 25)), chain_job(16, 10, 100), {}};
  problem.topology.edit().gpus[0].memory = Bytes(2000);
  IterationSearchOptions options;
  options.common.time_limit = 1e-9;
  const IterationSearchResult found = search_iteration(problem, options);
  CHECK(found.finalists.front().deficit_bytes <= 0);
  CHECK(found.stopped == Stopped::time_limit);
}

TEST_CASE("a piece of the screening ends between two evaluations, with the plans so far") {
  const Problem problem = tiny_problem(4);
  const auto job = Decisions(problem).first();
  const PlanScore score(Objective::iteration_time, problem.topology);
  const Shape shape{2, 2};
  const std::vector<PlanCandidate> all = initial_plans(job, shape, score.with_own_count(), true, 3);
  REQUIRE(all.size() == 3);

  const PlanScore never = score.with_own_count().with_stop([] { return true; });
  CHECK_THROWS_AS(initial_plans(job, shape, never, true, 3), WorkStopped);
  CHECK(never.evaluated() == 0);

  // The first plan of a search is found even if it is stopped at once.
  const std::vector<PlanCandidate> first = initial_plans(job, shape, never, true, 3, true);
  REQUIRE(first.size() == 1);
  CHECK(first.front().iteration_s >= all.front().iteration_s);
  CHECK(never.evaluated() <= 2);  // an even distribution of the micro-batches, and a balanced one

  const PlanScore some = score.with_own_count();
  const std::vector<PlanCandidate> few =
      initial_plans(job, shape, some.with_stop([&] { return some.evaluated() >= 5; }), true, 3);
  CHECK(!few.empty());
  CHECK(some.evaluated() == 5);
}

TEST_CASE("annealing ends between two moves") {
  const Problem problem = tiny_problem(4);
  const auto job = Decisions(problem).first();
  const PlanScore score(Objective::iteration_time, problem.topology);
  const PlanCandidate start = initial_plans(job, {2, 2}, score, false, 1).front();
  int asked = 0;
  Rng rng = Rng::for_task(1, 1);
  const AnnealedPlan cut =
      anneal_plan(start, score.with_stop([&] { return ++asked > 10; }), {1000, 0.02, 0.0002}, rng, {});
  CHECK(cut.evaluations == 10);
  CHECK_FALSE(cut.is_complete);
  CHECK(cut.best.score <= start.score);
  CHECK(anneal_plan(start, score.with_stop([] { return true; }), {1000, 0.02, 0.0002}, rng, {}).evaluations ==
        0);
}
