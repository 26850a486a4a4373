// Tests fitting layers and micro-batches to the devices of a plan.
#include "planner/search/iteration_time/fit_plan.hpp"

#include <algorithm>
#include <numeric>

#include "core/base/infinity.hpp"
#include "planner/search/iteration_time/decisions.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"
#include "tests/support/tiny_problems.hpp"

using namespace dtfm;
using namespace dtfm::search;

namespace {

constexpr int layers = 8;

/// Returns two pipelines of two stages; the devices of the second stages have the given memory and speed.
Problem problem_with(double first_memory, double second_memory, double second_speed) {
  Problem problem{flat_topology({4}, link_of(0.01, 100), link_of(0.1, 25)), chain_job(layers, 10, 100), {}};
  problem.job.training.global_batch = 64;
  problem.topology.edit().gpus[0].memory = Bytes(first_memory);
  problem.topology.edit().gpus.push_back(problem.topology->gpus[0]);
  problem.topology.edit().gpus[1].memory = Bytes(second_memory);
  for (const int device : {1, 3}) {
    problem.topology.edit().devices[static_cast<std::size_t>(device)].gpu = 1;
    problem.topology.edit().devices[static_cast<std::size_t>(device)].speed = second_speed;
  }
  return problem;
}

Plan cut_at(const Job& job, int layer) {
  const auto pipeline = [&](int first, int second) {
    return Pipeline{job.training.global_batch / 2, {{{0, layer}, {first}}, {{layer, layers}, {second}}}};
  };
  return {1, job.execution, {pipeline(0, 1), pipeline(2, 3)}};
}

}  // namespace

TEST_CASE("a plan that exceeds memory in any case flushes after every micro-batch to minimize the deficit") {
  const Problem problem = problem_with(800, 800, 1);
  const auto job = Decisions(problem).first();
  const PlanScore score(Objective::iteration_time, problem.topology);
  const Plan plan = cut_at(problem.job, layers / 2);
  PlanEvaluator evaluator(job, score);
  const PlanCandidate found = balance_plan(evaluator, plan);
  REQUIRE(found.deficit_bytes > 0);
  CHECK(found.plan.execution.flush == 1);
  for (const std::optional<int> flush : {std::optional<int>(), std::optional(2), std::optional(4)}) {
    Plan other = plan;
    other.execution.flush = flush;
    CHECK(found.deficit_bytes < evaluate_plan(job, other, score).deficit_bytes);
  }
}

TEST_CASE("splitting again makes no plan of three stages worse and keeps its evaluation budget") {
  for (const double memory : {1500.0, 2000.0, 3000.0}) {
    CAPTURE(memory);
    Problem problem{flat_topology({3}, link_of(0.01, 100), link_of(0.1, 25)), chain_job(layers, 10, 100), {}};
    problem.job.training.global_batch = 64;
    problem.topology.edit().gpus[0].memory = Bytes(memory);
    problem.topology.edit().devices[2].speed = 0.5;
    const auto job = Decisions(problem).first();
    const PlanScore score = PlanScore(Objective::iteration_time, problem.topology).with_own_count();
    const Plan plan = plan_of(problem.job, 3, 1, 64);
    const PlanCandidate fitted = fit_plan(job, plan, score);
    const PlanCandidate recut = refine_layer_cuts(fitted, score);
    REQUIRE(fitted.plan.execution.flush.has_value());
    CHECK(recut.score <= fitted.score);
    CHECK(recut.score == evaluate_plan(job, recut.plan, score).score);
    CHECK(score.evaluated() <= max_fitting_evaluations(*job) + 1);
  }
}

TEST_CASE("if memory requires flushes a stage boundary is placed at the best layer") {
  int flushed = 0, improved = 0;
  for (const double first_memory : {2000.0, 3000.0, 6000.0})
    for (const double second_memory : {1500.0, 2000.0, 3000.0, 6000.0})
      for (const double speed : {0.3, 1.0, 2.0}) {
        CAPTURE(first_memory, second_memory, speed);
        const Problem problem = problem_with(first_memory, second_memory, speed);
        const auto job = Decisions(problem).first();
        const PlanScore score(Objective::iteration_time, problem.topology);
        PlanEvaluator evaluator(job, score);
        const PlanCandidate fitted = fit_plan(evaluator, cut_at(problem.job, layers / 2));
        const PlanCandidate recut = refine_layer_cuts(fitted, score);
        if (!fitted.plan.execution.flush) {
          CHECK(recut.plan == fitted.plan);
          continue;
        }
        ++flushed;
        PlanCandidate best = fitted;
        for (int layer = 1; layer < layers; ++layer) {
          const PlanCandidate other = balance_plan(evaluator, cut_at(problem.job, layer));
          if (is_better(other, best)) best = other;
        }
        CHECK(recut.score == best.score);
        improved += recut.score < fitted.score;
      }
  CHECK(flushed >= 5);
  CHECK(improved >= 3);
}

// Every second problem is short of memory, which the order of stages decides.
TEST_CASE("no exchange of two stages improves a plan whose stage order was improved") {
  int improved = 0, made_fit = 0, nearly_best = 0;
  constexpr int problems = 40, stages = 4, pipelines = 3;
  for (int number = 0; number < problems; ++number) {
    CAPTURE(number);
    Problem problem = tiny_problem(number, medium_problems);
    Topology& topology = problem.topology.edit();
    topology.gpus.push_back(topology.gpus.front());
    double least_bytes = infinity;  // of a stage
    for (int stage = 0; stage < stages; ++stage) {
      const cost::StageNeeds needs = cost::IterationModel(problem).stages.needs(
          even_split(layer_count(problem.job.model), stages, stage), pipelines);
      least_bytes = std::min(least_bytes, needs.state + needs.working + needs.per_micro_batch);
    }
    topology.gpus.back().memory = Bytes(1.001 * least_bytes);
    if (number % 2 == 0)
      for (int device = 0; device < topology.size(); device += stages) topology.devices[at(device)].gpu = 1;
    const auto job = Decisions(problem).first();
    const PlanScore score(Objective::iteration_time, problem.topology);
    PlanEvaluator evaluator(job, score);
    const PlanCandidate start = evaluator.evaluate_with_flushes(plan_of(problem.job, stages, pipelines, 5));
    const PlanCandidate found = improve_stage_order(start, score, 1000);
    CHECK_FALSE(is_better(start, found));
    improved += is_better(found, start) ? 1 : 0;
    made_fit += start.deficit_bytes > 0 && found.deficit_bytes <= 0 ? 1 : 0;
    const auto in_order = [&](const PlanCandidate& of, const std::vector<std::size_t>& order) {
      Plan plan = of.plan;
      for (std::size_t p = 0; p < plan.pipelines.size(); ++p)
        for (std::size_t stage = 0; stage < order.size(); ++stage)
          plan.pipelines[p].stages[stage].devices = of.plan.pipelines[p].stages[order[stage]].devices;
      return evaluator.evaluate_with_flushes(std::move(plan));
    };
    std::vector<std::size_t> order(stages);
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t b = 0; b < order.size(); ++b)
      for (std::size_t a = 0; a < b; ++a) {
        std::swap(order[a], order[b]);
        CHECK_FALSE(is_better(in_order(found, order), found));
        std::swap(order[a], order[b]);
      }
    PlanCandidate best = start;
    do {
      PlanCandidate it = in_order(start, order);
      if (is_better(it, best)) best = std::move(it);
    } while (std::next_permutation(order.begin(), order.end()));
    nearly_best += (found.deficit_bytes > 0) == (best.deficit_bytes > 0) && found.score < 1.05 * best.score;
    CHECK(improve_stage_order(start, score, 0).plan == start.plan);
    Plan uneven = start.plan;
    uneven.pipelines.pop_back();
    uneven.pipelines.push_back({5, {{{0, layer_count(problem.job.model)}, {11}}}});
    CHECK(improve_stage_order(evaluator.evaluate(uneven), score, 1000).plan == uneven);
  }
  CHECK(improved > problems / 2);
  CHECK(made_fit > 0);
  CHECK(nearly_best > problems * 3 / 4);
}
