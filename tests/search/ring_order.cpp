// The order of pipelines in a ring, compared with all orders.
#include "planner/search/iteration_time/ring_order.hpp"

#include <algorithm>
#include <limits>

#include <catch2/catch.hpp>

#include "core/base/index.hpp"
#include "planner/search/iteration_time/decisions.hpp"
#include "planner/search/iteration_time/fit_plan.hpp"
#include "tests/support/tiny_problems.hpp"

using namespace dtfm;
using namespace dtfm::search;

namespace {

/// One micro-batch and all layers on each of the first devices.
Plan data_parallel(const DecidedJob& job, int pipelines) {
  Plan plan{1, job.problem.job.execution, {}};
  for (int device = 0; device < pipelines; ++device)
    plan.pipelines.push_back({1, {{{0, job.model.stages.layers()}, {device}}}});
  return plan;
}

bool is_before(const Pipeline& a, const Pipeline& b) {
  return a.stages.front().devices < b.stages.front().devices;
}

}  // namespace

TEST_CASE("rings of 6 pipelines are nearly in the best of all orders") {
  constexpr int pipelines = 6;
  double best_s = 0, ordered_s = 0, given_s = 0;
  for (int number = 0; number < 20; ++number) {
    CAPTURE(number);
    Problem problem = tiny_problem(number, medium_problems);
    problem.job.execution.gradient_sync = GradientSync::ring;
    problem.job.training.global_batch = pipelines;
    Decisions decisions(problem);
    const auto job = decisions.first();
    const PlanScore score(Objective::iteration_time, problem.topology);
    const PlanCandidate given = evaluate_plan(job, data_parallel(*job, pipelines), score);
    const PlanCandidate ordered = order_pipelines(given, score);
    Plan sorted = ordered.plan;
    std::sort(sorted.pipelines.begin(), sorted.pipelines.end(), is_before);
    CHECK(sorted.pipelines == given.plan.pipelines);
    double best = std::numeric_limits<double>::infinity();
    Plan plan = given.plan;
    do {
      best = std::min(best, evaluate_plan(job, plan, score).iteration_s);
    } while (std::next_permutation(plan.pipelines.begin() + 1, plan.pipelines.end(), is_before));
    CHECK(ordered.iteration_s <= 1.15 * best);
    best_s += best;
    ordered_s += ordered.iteration_s;
    given_s += given.iteration_s;
  }
  CHECK(ordered_s <= 1.05 * best_s);
  CHECK(given_s >= 1.1 * best_s);
}

TEST_CASE("only rings are ordered") {
  Problem problem = tiny_problem(0, medium_problems);
  problem.job.execution.gradient_sync = GradientSync::sharded_ps;
  problem.job.training.global_batch = 6;
  Decisions decisions(problem);
  const auto job = decisions.first();
  const PlanScore score(Objective::iteration_time, problem.topology);
  const PlanCandidate given = evaluate_plan(job, data_parallel(*job, 6), score);
  CHECK(order_pipelines(given, score).plan == given.plan);
}
