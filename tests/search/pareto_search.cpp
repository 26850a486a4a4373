#include "planner/search/iteration_time/pareto_search.hpp"

#include <algorithm>
#include <cmath>

#include "planner/search/iteration_time/pareto_front.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/plan_enumeration.hpp"
#include "tests/support/random_problem.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::search;

namespace {

std::vector<PlanObjectives> measures_of(const std::vector<PlanCandidate>& candidates) {
  std::vector<PlanObjectives> measures;
  for (const PlanCandidate& it : candidates) measures.push_back(plan_objectives(it, it.plan));
  return measures;
}

std::vector<PlanObjectives> pareto_front(const std::vector<PlanObjectives>& measures) {
  std::vector<PlanObjectives> front;
  for (const std::size_t i : undominated(measures)) front.push_back(measures[i]);
  return front;
}

bool is_close(double a, double b) {
  return a == b || std::abs(a - b) <= 1e-9 * std::abs(b);
}

bool is_close(const PlanObjectives& a, const PlanObjectives& b) {
  return is_close(a.iteration_s, b.iteration_s) && is_close(a.usd, b.usd) && a.devices == b.devices;
}

/// Returns the Pareto front of all plans, without points that are equal up to rounding.
std::vector<PlanObjectives> exhaustive_pareto_front(const Problem& problem) {
  const IterationModel model(problem);
  std::vector<PlanObjectives> front;
  for_each_plan(model, [&](const Plan& plan) {
    const IterationEstimate estimate = estimate_iteration(model, plan);
    const double seconds = estimate.iteration_s;
    const auto usd = usd_of(problem.topology, plan, seconds, estimate.egress_usd);
    const PlanObjectives measure{seconds, usd.value_or(std::numeric_limits<double>::infinity()),
                                 static_cast<int>(pipeline_major(plan).size())};
    if (std::any_of(front.begin(), front.end(), [&](const PlanObjectives& it) {
          return dominates(it, measure) || is_close(it, measure);
        }))
      return;
    std::erase_if(front, [&](const PlanObjectives& it) { return dominates(measure, it); });
    front.push_back(measure);
  });
  return front;
}

IterationSearchOptions search_options(long long evaluations, int threads = 1) {
  IterationSearchOptions options;
  options.common.evaluations = evaluations;
  options.common.threads = threads;
  return options;
}

/// Returns a problem with heterogeneous speeds and prices, and two sites with egress between them.
Problem problem_with_prices(Rng& rng, const std::vector<int>& per_site, int layers, int micro_batches) {
  Problem problem{
      flat_topology(per_site, link_of(0.01, 100), link_of(0.1, 25)), chain_job(layers, 10, 100), {}};
  problem.job.training.global_batch = micro_batches;
  for (Device& device : problem.topology.edit().devices) {
    device.speed = 0.5 + 0.25 * rng.below(5);
    device.price = DollarsPerHour(1 + rng.below(8));
  }
  std::get<RuleLinks>(problem.topology.edit().links).links[1].egress = DollarsPerByte(1e-7 * rng.below(100));
  return problem;
}

}  // namespace

TEST_CASE("the Pareto front of a tiny problem is that of all plans", "[serial]") {
  std::size_t points = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    Rng rng = Rng::for_task(seed, 0);
    const Problem problem = problem_with_prices(rng, {2, 2}, 3, 4);
    CAPTURE(seed);
    const std::vector<PlanObjectives> expected = exhaustive_pareto_front(problem);
    points += expected.size();
    const ParetoSearch search = search_pareto(problem, search_options(20'000));
    const std::vector<PlanObjectives> found = pareto_front(measures_of(search.candidates));
    for (const PlanObjectives& it : expected) {
      CAPTURE(it.iteration_s, it.usd, it.devices);
      CHECK(std::any_of(found.begin(), found.end(), [&](const auto& other) { return is_close(other, it); }));
    }
    CHECK(found.size() == expected.size());
  }
  CHECK(points > 40);  // fronts with more than their two ends
}

TEST_CASE("no point of a Pareto front dominates another and its ends are no worse than single searches",
          "[serial]") {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    Rng rng = Rng::for_task(seed, 1);
    const Problem problem = problem_with_prices(rng, {4, 5, 3}, 8, 24);
    CAPTURE(seed);
    const ParetoSearch search = search_pareto(problem, search_options(4000));
    const std::vector<PlanObjectives> all = measures_of(search.candidates), front = pareto_front(all);
    REQUIRE(front.size() > 2);
    for (const PlanObjectives& a : front)
      for (const PlanObjectives& b : front) CHECK_FALSE(dominates(a, b));
    const auto best = [&](Objective objective) {
      IterationSearchOptions options = search_options(4000);
      options.objective = objective;
      const PlanCandidate found = search_iteration(problem, options).finalists.front();
      return plan_objectives(found, found.plan);
    };
    const auto least = [&](const auto& value) {
      double result = value(front.front());
      for (const PlanObjectives& it : front) result = std::min(result, value(it));
      return result;
    };
    CHECK(front.front().iteration_s <= best(Objective::iteration_time).iteration_s);
    CHECK(least([](const PlanObjectives& it) { return it.usd; }) <= best(Objective::cost_per_token).usd);
    const auto work = [](const PlanObjectives& it) { return it.iteration_s * it.devices; };
    CHECK(least(work) <= work(best(Objective::device_efficiency)) * (1 + 1e-12));
    CHECK(search.result.finalists.front().plan ==
          search_iteration(problem, search_options(4000)).finalists.front().plan);
  }
}

TEST_CASE("Pareto fronts are the same for any number of threads") {
  Rng rng = Rng::for_task(0, 2);
  const Problem problem = problem_with_prices(rng, {4, 4}, 6, 12);
  const ParetoSearch one = search_pareto(problem, search_options(2000));
  for (const int threads : {2, 3, 8}) {
    const ParetoSearch many = search_pareto(problem, search_options(2000, threads));
    CHECK(many.evaluations == one.evaluations);
    REQUIRE(many.candidates.size() == one.candidates.size());
    for (std::size_t i = 0; i < one.candidates.size(); ++i)
      CHECK(many.candidates[i].plan == one.candidates[i].plan);
  }
}

TEST_CASE("without prices the front has time and devices and an unpriced device can only save time") {
  Rng rng = Rng::for_task(0, 3);
  Problem problem = problem_with_prices(rng, {2, 2}, 4, 8);
  problem.topology.edit().devices[0].price.reset();
  problem.topology.edit().devices[0].speed = 8;
  const auto fastest =
      pareto_front(measures_of(search_pareto(problem, search_options(2000)).candidates)).front();
  CHECK_FALSE(std::isfinite(fastest.usd));
  for (Device& device : problem.topology.edit().devices) device.price.reset();
  for (const PlanObjectives& it :
       pareto_front(measures_of(search_pareto(problem, search_options(2000)).candidates)))
    CHECK_FALSE(std::isfinite(it.usd));
}

TEST_CASE("an interrupted Pareto search returns what it found so far") {
  Rng rng = Rng::for_task(0, 4);
  const Problem problem = problem_with_prices(rng, {4, 4}, 6, 12);
  IterationSearchOptions options = search_options(2000);
  options.common.stop = [] { return true; };
  const ParetoSearch search = search_pareto(problem, options);
  CHECK(search.stopped == Stopped::interrupted);
  CHECK_FALSE(search.candidates.empty());
}

TEST_CASE("a Pareto front above its maximum size keeps its ends and drops the closest points") {
  Rng rng = Rng::for_task(0, 5);
  const Problem problem = problem_with_prices(rng, {1}, 1, 1);
  const auto job = search_iteration(problem, search_options(10)).finalists.front();
  ParetoFront front(4);
  PlanCandidate candidate = job;
  for (const double seconds : {1.0, 2.0, 2.1, 4.0, 8.0}) {  // the longer the iteration the cheaper
    candidate.iteration_s = seconds;
    candidate.egress_usd = 100 - 10 * seconds;
    front.offer(candidate);
  }
  std::vector<double> left;
  for (const PlanCandidate& it : front.plans()) left.push_back(it.iteration_s);
  REQUIRE(left.size() == 4);
  CHECK(left.front() == 1.0);
  CHECK(left.back() == 8.0);
  CHECK(std::count(left.begin(), left.end(), 2.0) + std::count(left.begin(), left.end(), 2.1) == 1);
}
