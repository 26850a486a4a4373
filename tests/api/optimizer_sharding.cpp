// Plans with sharded optimizers against the rows of dtfm-compare that train the same way.
#include <algorithm>
#include <string>

#include "planner/api/api.hpp"
#include "planner/api/schemes/scheme.hpp"
#include "core/base/infinity.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/tiny_problems.hpp"

using namespace dtfm;

TEST_CASE("in the data centre the default plan is as fast as the row of zero2") {
  Problem problem{io::read_topology(DTFM_SOURCE_DIR "/topologies/datacenter.yaml"), io::default_job(),
                  io::shipped_calibration("v100").constants, io::built_in_roofline()};
  const auto row = std::find_if(api::schemes().begin(), api::schemes().end(),
                                [](const api::Scheme& it) { return std::string(it.name) == "zero2"; });
  REQUIRE(row != api::schemes().end());
  const api::ChosenLayout zero2 = api::choose_layout(problem, *row, {0}, 1);
  REQUIRE(zero2.layout);
  Problem own = problem;
  own.job = zero2.layout->job;
  const double row_s = sim::simulate_undisturbed(own, zero2.layout->plan).seconds;

  api::PlanRequest request{problem};
  request.options.common.evaluations = 20000;
  const api::FoundPlans result = api::find_plans(request);
  CHECK(result.finalist_results.front().seconds <= row_s * (1 + 1e-9));
  CHECK(result.found.finalists.front().plan.execution.optimizer_sharding == OptimizerSharding::zero2);
}

TEST_CASE("an enumeration with a sharded optimizer finds the best of all plans") {
  for (const GradientSync sync : {GradientSync::ring, GradientSync::sharded_ps}) {
    CAPTURE(name_of(sync));
    Problem problem{flat_topology({3, 2}, link_of(1e-3, 1e8), link_of(0.02, 2e7)), chain_job(4, 1e6, 1e6),
                    Calibration{1, 0, 1, 0}};
    problem.topology.edit().devices[4].speed = 0.5;
    problem.job.training.global_batch = 6;
    problem.job.execution.gradient_sync = sync;
    problem.job.execution.optimizer_sharding = OptimizerSharding::zero1;
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
