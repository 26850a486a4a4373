// The plan of a small problem is the best of all plans, as the simulator decides.
#include <algorithm>

#include "planner/api/api.hpp"
#include "core/base/infinity.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/tiny_problems.hpp"

using namespace dtfm;

TEST_CASE("the plan of a tiny problem is the best of all plans") {
  for (int number = 0; number < tiny_problem_count; number += 5) {
    CAPTURE(number);
    const Problem problem = tiny_problem(number);
    const api::FoundPlans result = api::find_plans({problem});
    CHECK(result.found.stopped == search::Stopped::optimal);
    CHECK(result.finalist_results.front().seconds == Approx(tiny_optimum(problem).seconds).epsilon(1e-9));
    CHECK(std::is_sorted(result.finalist_results.begin(), result.finalist_results.end(),
                         [](const auto& a, const auto& b) { return a.seconds < b.seconds; }));
  }
}

TEST_CASE("an enumeration of interchangeable devices finds as good a plan as one of distinct devices") {
  for (const GradientSync sync : {GradientSync::ring, GradientSync::tree, GradientSync::sharded_ps,
                                  GradientSync::central_ps, GradientSync::hierarchical}) {
    CAPTURE(name_of(sync));
    Problem problem{flat_topology({3, 2}, link_of(1e-3, 1e8), link_of(0.02, 2e7)), chain_job(4, 1e6, 1e6),
                    Calibration{1, 0, 1, 0}};
    problem.topology.edit().devices[4].speed = 0.5;
    problem.job.training.global_batch = 6;
    problem.job.execution.gradient_sync = sync;
    const api::FoundPlans result = api::find_plans({problem});
    CHECK(result.found.stopped == search::Stopped::optimal);
    double best_s = infinity;
    const TinyPlans plans(problem);
    plans.for_each(best_s, [&](const Plan& plan, double) {
      best_s = std::min(best_s, simulated_iteration_s(problem, plan));
    });
    CHECK(result.finalist_results.front().seconds == Approx(best_s).epsilon(1e-9));
  }
}
