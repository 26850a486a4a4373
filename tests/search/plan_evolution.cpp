#include "planner/search/iteration_time/plan_evolution.hpp"

#include <algorithm>
#include <set>

#include "core/plan/shards.hpp"
#include "planner/search/iteration_time/decisions.hpp"
#include "planner/search/iteration_time/fit_plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/heterogeneous_hosts.hpp"
#include "tests/support/random_problem.hpp"

using namespace dtfm;
using namespace dtfm::search;

namespace {

Problem random_problem(std::uint64_t seed) {
  Rng rng = Rng::for_task(seed, 5);
  Problem problem{random_topology(rng, 8, seed % 2 == 1), random_chain_job(rng, 8),
                  Calibration{1, 0.001, 1, 0}};
  for (Gpu& gpu : problem.topology.edit().gpus) gpu.memory = Bytes(1e13);
  problem.job.training.global_batch = 16;
  problem.job.execution.schedule = seed % 4 < 2 ? Schedule::gpipe : Schedule::one_f_one_b;
  return problem;
}

std::vector<PlanCandidate> first_population(const std::shared_ptr<const DecidedJob>& job,
                                            const PlanScore& score) {
  std::vector<PlanCandidate> population = initial_plans(job, {2, 3}, score, true, 3);
  for (PlanCandidate& it : initial_plans(job, {4, 2}, score, true, 3)) population.push_back(std::move(it));
  return population;
}

/// Every layer once per pipeline, in order; every device at most once; all micro-batches.
void check_plan(const Problem& problem, const Plan& plan) {
  std::set<int> devices;
  for (const Pipeline& pipeline : plan.pipelines) {
    REQUIRE(pipeline.micro_batches > 0);
    int layer = 0;
    for (const Stage& stage : pipeline.stages) {
      REQUIRE(stage.layers.first == layer);
      REQUIRE(stage.layers.second > layer);
      layer = stage.layers.second;
      for (const int device : stage.devices) REQUIRE(devices.insert(device).second);
    }
    REQUIRE(layer == layer_count(problem.job.model));
  }
  REQUIRE(total_micro_batches(plan) == micro_batch_count(problem.job));
}

}  // namespace

TEST_CASE("evolution gives valid plans, better ones first, and never loses the best") {
  int deeper = 0;
  double before = 0, after = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    const Problem problem = random_problem(seed);
    Decisions decisions(problem);
    const auto job = decisions.first();
    REQUIRE(can_evolve(*job));
    const PlanScore score(Objective::iteration_time, problem.topology);
    const std::vector<PlanCandidate> start = first_population(job, score);
    Rng rng = Rng::for_task(seed, 6);
    const std::vector<PlanCandidate> evolved = evolve_plans(start, {job}, {}, score, 500, rng, {});
    const double best = std::min_element(start.begin(), start.end(), is_better)->score;
    CHECK(std::is_sorted(evolved.begin(), evolved.end(), is_better));
    CHECK(evolved.front().score <= best);
    before += best;
    after += evolved.front().score;
    for (const PlanCandidate& it : evolved) {
      check_plan(problem, it.plan);
      CHECK(evaluate_plan(job, it.plan, score).score == Approx(it.score));
      deeper += min_depth(it.plan) < depth(it.plan) ? 1 : 0;
    }
    Rng again = Rng::for_task(seed, 6);
    CHECK(evolve_plans(start, {job}, {}, score, 500, again, {}).front().plan == evolved.front().plan);
  }
  CHECK(deeper > 0);
  CHECK(after < 0.98 * before);
}

TEST_CASE("evolution honours given numbers of stages and replicas") {
  const Problem problem = random_problem(2);
  Decisions decisions(problem);
  const auto job = decisions.first();
  const PlanScore score(Objective::iteration_time, problem.topology);
  Rng rng = Rng::for_task(1, 1);
  for (const PlanCandidate& it :
       evolve_plans(initial_plans(job, {2, 3}, score, true, 3), {job}, {2, 3}, score, 500, rng, {})) {
    CHECK(it.plan.pipelines.size() == 3);
    CHECK(depth(it.plan) == 2);
    CHECK(min_depth(it.plan) == 2);
  }
}

TEST_CASE("uniform pipelines and interleaved schedules are not evolved") {
  Problem problem = random_problem(0);
  problem.job.parallelism.uniform_pipelines = true;
  CHECK_FALSE(can_evolve(*Decisions(problem).first()));
  problem.job.parallelism.uniform_pipelines = false;
  problem.job.execution.schedule = Schedule::interleaved;
  problem.job.execution.chunks = 2;
  CHECK_FALSE(can_evolve(*Decisions(problem).first()));
}

TEST_CASE("a stopped evolution returns its starts") {
  const Problem problem = random_problem(0);
  Decisions decisions(problem);
  const PlanScore score(Objective::iteration_time, problem.topology);
  const std::vector<PlanCandidate> start = first_population(decisions.first(), score);
  Rng rng = Rng::for_task(1, 1);
  const auto stop = [] { return true; };
  CHECK(evolve_plans(start, {decisions.first()}, {}, score, 1000, rng, stop).size() == start.size());
}

TEST_CASE("an evolution that is stopped between two evaluations keeps what it has found") {
  const Problem problem = random_problem(0);
  Decisions decisions(problem);
  const auto job = decisions.first();
  const PlanScore score(Objective::iteration_time, problem.topology);
  const std::vector<PlanCandidate> start = first_population(job, score);
  const double best = std::min_element(start.begin(), start.end(), is_better)->score;
  double before = best;
  for (const long long most : {0, 100, 1000}) {
    CAPTURE(most);
    const PlanScore own = score.with_own_count();
    Rng rng = Rng::for_task(0, 6);
    const std::vector<PlanCandidate> evolved = evolve_plans(
        start, {job}, {}, own.with_stop([&] { return own.evaluated() >= most; }), 1'000'000, rng, {});
    CHECK(own.evaluated() == most);
    CHECK(evolved.front().score <= before);
    before = evolved.front().score;
  }
  CHECK(before < best);
}

TEST_CASE("evolution gives stages degrees of their own") {
  const Problem problem = host_problem({2, 2, 2}, 4);
  Decisions decisions(problem);
  const auto single = decisions.first(), any = decisions.with_any_degree(*single);
  REQUIRE(any);
  CHECK_FALSE(decisions.with_any_degree(*any));
  const PlanScore score(Objective::iteration_time, problem.topology);
  const std::vector<PlanCandidate> start = initial_plans(single, {2, 2}, score, true, 3);
  const double best = std::min_element(start.begin(), start.end(), is_better)->score;
  Rng rng = Rng::for_task(1, 2);
  const std::vector<PlanCandidate> evolved = evolve_plans(start, {single, any}, {}, score, 3000, rng, {});
  std::set<std::size_t> mixed;
  for (const PlanCandidate& it : evolved) {
    check_plan(it.job->problem, it.plan);
    const std::vector<int> degrees = tensor_degrees(it.plan);
    CHECK(it.plan.tensor == degrees.back());
    if (it.job == single) CHECK(degrees == std::vector{1});
    if (degrees.size() > 1) mixed.insert(degrees.size());
    for (const Pipeline& pipeline : it.plan.pipelines)
      for (const Stage& stage : pipeline.stages)
        for (const int device : stage.devices)
          CHECK(problem.topology->devices[at(device)].host ==
                problem.topology->devices[at(stage.devices.front())].host);
    CHECK(evaluate_plan(it.job, it.plan, score).score == Approx(it.score));
  }
  CHECK(!mixed.empty());
  CHECK(evolved.front().score < 0.9 * best);
}

TEST_CASE("evolution changes a bad decision") {
  Problem problem = random_problem(1);
  problem.job.automatic[Setting::micro_batch] = true;
  Decisions decisions(problem);
  const DecidedJobs jobs = decisions.alternatives(*decisions.first());
  const auto worst = std::find_if(jobs.begin(), jobs.end(), [](const auto& it) {
    return it->problem.job.execution.micro_batch == 4;  // so few micro-batches are hard to balance
  });
  REQUIRE(worst != jobs.end());
  const PlanScore score(Objective::iteration_time, problem.topology);
  Rng rng = Rng::for_task(1, 2);
  std::set<int> micro_batches;
  for (const PlanCandidate& it :
       evolve_plans(first_population(*worst, score), jobs, {}, score, 2000, rng, {})) {
    check_plan(it.job->problem, it.plan);
    CHECK(it.plan.execution.micro_batch == it.job->problem.job.execution.micro_batch);
    CHECK(evaluate_plan(it.job, it.plan, score).score == Approx(it.score));
    micro_batches.insert(it.plan.execution.micro_batch);
  }
  CHECK(micro_batches != std::set{4});
}
