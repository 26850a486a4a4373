// Tests the annealing of a single plan: what its moves must preserve and update.
#include "planner/search/iteration_time/plan_anneal.hpp"

#include <cmath>
#include <numeric>

#include "planner/search/iteration_time/decisions.hpp"
#include "planner/search/iteration_time/initial_plans.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/heterogeneous_hosts.hpp"
#include "tests/support/random_problem.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::search;

namespace {

constexpr double initial_temperature = 0.02, final_temperature = 0.0002;

AnnealedPlan annealed(const PlanCandidate& start, const PlanScore& score, long long moves,
                      std::uint64_t seed = 0) {
  Rng rng = Rng::for_task(seed, 0);
  return anneal_plan(start, score, {moves, initial_temperature, final_temperature}, rng, {});
}

Plan one_pipeline(const Job& job, std::vector<Stage> stages) {
  return {static_cast<int>(stages.front().devices.size()),
          job.execution,
          {{job.training.global_batch, std::move(stages)}}};
}

}  // namespace

TEST_CASE("exchanging interchangeable groups changes no estimate") {
  int exchanged = 0;
  for (const bool shared : {false, true})
    for (const GradientSync sync : {GradientSync::sharded_ps, GradientSync::ring, GradientSync::hierarchical})
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        CAPTURE(shared, sync, seed);
        Rng rng = Rng::for_task(3, seed);
        Problem problem{random_topology(rng, 12, shared), random_chain_job(rng, 6), {}};
        problem.job.execution.gradient_sync = sync;
        Topology& topology = problem.topology.edit();
        auto& rules = std::get<RuleLinks>(topology.links);
        rules.same_host = rules.table;
        for (int device = 0; device < 12; ++device) {
          topology.devices[at(device)].host = device < 6 ? device / 2 : device;
          if (device < 6) topology.devices[at(device)].site = topology.devices[at(device / 2 * 2)].site;
          rules.link_class[at(device)] = topology.devices[at(device)].site;
          topology.devices[at(device)].speed = 1;
        }
        const auto job = Decisions(problem).first();
        const PlanScore score(Objective::iteration_time, problem.topology);
        std::vector<std::vector<int>> groups;
        for (int device = 0; device < 12; ++device) groups.push_back({device});
        const std::vector<int> classes = interchangeable_classes(groups, *job, score);
        std::vector<int> order(12);
        std::iota(order.begin(), order.end(), 0);
        rng.shuffle<int>(order);
        const auto planned = [&] {
          Plan plan = plan_of(problem.job, 3, 4, 2);
          for (Pipeline& pipeline : plan.pipelines)
            for (Stage& stage : pipeline.stages) stage.devices = {order[at(stage.devices.front())]};
          return cost::estimate_iteration(job->model, plan).iteration_s;
        };
        const double before_s = planned();
        for (std::size_t a = 0; a < order.size(); ++a)
          for (std::size_t b = 0; b < a; ++b) {
            if (classes[at(order[a])] != classes[at(order[b])]) continue;
            std::swap(order[a], order[b]);
            CHECK(planned() == Approx(before_s).epsilon(1e-12));
            std::swap(order[a], order[b]);
            ++exchanged;
          }
      }
  CHECK(exchanged > 100);
}

TEST_CASE("pipelines flush as rarely as the layers found by annealing permit") {
  Problem problem{flat_topology({2}, link_of(0.01, 100), link_of(0.1, 25)), chain_job(4, 10, 100), {}};
  problem.job.training.global_batch = 64;
  // A layer has 10 parameters of 16 bytes. A micro-batch keeps 100 B per layer and, at the boundary, 200 B or
  // 100 B of buffers. Split into two layers and two: 320 B of state, and 400 B or 300 B per micro-batch;
  // 2,000 B hold 4 of them. Split into three and one: 480 B and 500 B; 2,000 B hold 3.
  problem.topology.edit().gpus[0].memory = Bytes(2000);
  const PlanScore score(Objective::iteration_time, problem.topology);
  const auto job = Decisions(problem).first();
  const auto split_at = [&](int layer, int flush) {
    Plan plan = one_pipeline(problem.job, {{{0, layer}, {0}}, {{layer, 4}, {1}}});
    plan.execution.flush = flush;
    return evaluate_plan(job, std::move(plan), score);
  };
  const PlanCandidate start = split_at(3, 3), best = split_at(2, 4);
  REQUIRE(start.deficit_bytes == 0);
  REQUIRE(best.deficit_bytes == 0);
  REQUIRE(split_at(2, 3).score > best.score);
  const AnnealedPlan found = annealed(start, score, 500);
  CHECK(found.best.plan.execution.flush == 4);
  CHECK(found.best.score == Approx(best.score));
  const PlanCandidate again = evaluate_plan(job, found.best.plan, score);
  CHECK(again.deficit_bytes == 0);
  CHECK(again.score == Approx(found.best.score));
  // A flush interval given by the job is kept.
  problem.job.execution.flush = 3;
  const auto fixed = Decisions(problem).first();
  CHECK(annealed(evaluate_plan(fixed, start.plan, score), score, 500).best.plan.execution.flush == 3);
}

TEST_CASE("an unpriced device is not added to a stage if the objective is cost") {
  // Hosts of two devices and of one; a stage has one or two. The initial device costs 2 USD/h, the other
  // device of its host has an unknown price, and that of the other host costs half as much.
  Problem problem = host_problem({2, 1}, 4);
  problem.topology.edit().devices[0].price = DollarsPerHour(2);
  problem.topology.edit().devices[2].price = DollarsPerHour(1);
  Decisions decisions(problem);
  const auto jobs = decisions.mixed_degrees(*decisions.first());
  REQUIRE(jobs.size() == 1);
  const PlanScore score(Objective::cost_per_token, problem.topology);
  const PlanCandidate start = evaluate_plan(jobs.front(), one_pipeline(problem.job, {{{0, 4}, {0}}}), score);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    const AnnealedPlan found = annealed(start, score, 200, seed);
    CHECK(pipeline_major(found.best.plan) == std::vector<int>{2});
    CHECK(found.best.score == Approx(start.score / 2));
  }
}

TEST_CASE("annealing evaluates its initial solution and its changes within the budget") {
  const Problem problem{flat_topology({2}, link_of(0.01, 100), link_of(0.1, 25)), chain_job(4, 10, 100), {}};
  const PlanScore score(Objective::iteration_time, problem.topology);
  const auto job = Decisions(problem).first();
  const PlanCandidate start =
      evaluate_plan(job, one_pipeline(problem.job, {{{0, 2}, {0}}, {{2, 4}, {1}}}), score);
  Rng rng = Rng::for_task(0, 0);
  const AnnealedPlan all = anneal_plan(start, score, {1000, initial_temperature, final_temperature}, rng, {});
  CHECK(all.is_complete);
  CHECK(all.evaluations > 100);
  CHECK(all.evaluations < 1001);  // some swaps are of a stage with itself
  Rng same = Rng::for_task(0, 0);
  const AnnealedPlan part =
      anneal_plan(start, score, {1000, initial_temperature, final_temperature, 100}, same, {});
  CHECK_FALSE(part.is_complete);
  CHECK(part.evaluations == 100);
}
