#include <algorithm>

#include "planner/api/api.hpp"
#include "planner/api/enumeration.hpp"
#include "core/base/infinity.hpp"
#include "planner/search/iteration_time/enumeration.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/tiny_problems.hpp"

using namespace dtfm;

TEST_CASE("an enumeration honours the limits of the job") {
  Problem problem = tiny_problem(4);
  SECTION("numbers of stages and pipelines") {
    api::PlanRequest request{problem};
    request.options.limits = {2, 2};
    const api::FoundPlans result = api::find_plans(request);
    CHECK(result.found.stopped == search::Stopped::optimal);
    for (const search::PlanCandidate& it : result.plans) {
      CHECK(it.plan.pipelines.size() == 2);
      for (const Pipeline& pipeline : it.plan.pipelines) CHECK(pipeline.stages.size() == 2);
    }
    CHECK(result.finalist_results.front().seconds >= api::find_plans({problem}).finalist_results.front().seconds);
  }
  SECTION("uniform pipelines") {
    problem.job.training.global_batch = 8;
    problem.job.parallelism.uniform_pipelines = true;
    const api::FoundPlans result = api::find_plans({problem});
    CHECK(result.found.stopped == search::Stopped::optimal);
    for (const search::PlanCandidate& it : result.plans)
      for (const Pipeline& pipeline : it.plan.pipelines) {
        CHECK(pipeline.micro_batches == it.plan.pipelines.front().micro_batches);
        CHECK(pipeline.stages.size() == it.plan.pipelines.front().stages.size());
      }
  }
  SECTION("memory") {
    problem.topology.edit().gpus[0].memory = Bytes(1e9);
    const api::FoundPlans result = api::find_plans({problem});
    REQUIRE(result.fits());
    for (const search::PlanCandidate& it : result.plans) CHECK(it.deficit_bytes <= 0);
  }
}

TEST_CASE("only small problems are enumerated") {
  // A search without a limit takes long, so it is stopped, after more steps than an enumeration needs.
  const auto stopped = [](api::PlanRequest request) {
    int left = 5000;
    request.options.common.stop = [&] { return --left < 0; };
    return api::find_plans(request).found.stopped;
  };
  Rng rng = Rng::for_task(1, 1);
  api::PlanRequest request{tiny_problem(0)};
  CHECK(stopped(request) == search::Stopped::optimal);
  request.options.common.evaluations = 100;
  CHECK(stopped(request) != search::Stopped::optimal);
  request.options.common.evaluations.reset();
  request.options.objective = Objective::device_efficiency;
  CHECK(stopped(request) != search::Stopped::optimal);
  request.options.objective = Objective::iteration_time;
  request.problem.job.execution.iteration_barrier = false;
  CHECK(stopped(request) != search::Stopped::optimal);
  request.problem.job = random_chain_job(rng, 40);
  CHECK(stopped(request) != search::Stopped::optimal);
  CHECK_FALSE(api::can_enumerate(request));
}

TEST_CASE("an incomplete enumeration says so") {
  const Problem problem = tiny_problem(1);
  search::EnumerationLimits limits;
  CHECK(search::enumerate_plans(problem, {}, 20, limits, {}).is_complete);
  limits.steps = 10;
  CHECK_FALSE(search::enumerate_plans(problem, {}, 20, limits, {}).is_complete);
  limits = {};
  limits.pipelines = 10;
  CHECK_FALSE(search::enumerate_plans(problem, {}, 20, limits, {}).is_complete);
  limits = {};
  limits.plans = 1;
  CHECK_FALSE(search::enumerate_plans(problem, {}, 1000, limits, {}).is_complete);
  CHECK_FALSE(search::enumerate_plans(problem, {}, 1000, {}, [] { return true; }).is_complete);
}

TEST_CASE("an enumeration leaves out plans that the schedule cannot run") {
  Problem problem = tiny_problem(4);
  problem.job.training.global_batch = 6;
  problem.job.execution.schedule = Schedule::interleaved;
  problem.job.execution.chunks = 2;
  problem.job.parallelism.uniform_pipelines = true;
  CHECK(api::find_plans({problem}).found.stopped == search::Stopped::optimal);
  problem.job.parallelism.uniform_pipelines = false;
  problem.job.execution.flush = 3;
  CHECK(api::find_plans({problem}).found.stopped == search::Stopped::optimal);
}

TEST_CASE("a number of stages that is not possible ends an enumeration at once") {
  api::PlanRequest request{tiny_problem(0)};
  request.options.limits.stages = 40;
  CHECK_THROWS_AS(api::find_plans(request), search::NoSuchShape);
}

TEST_CASE("layers and devices that take no time do not end an enumeration early") {
  Problem problem = tiny_problem(0);
  std::get<LayerChain>(problem.job.model).layers[0].forward = Flops(0);
  std::get<LayerChain>(problem.job.model).layers[0].backward = Flops(0);
  const api::FoundPlans result = api::find_plans({problem});
  CHECK(result.found.stopped == search::Stopped::optimal);
  CHECK(result.finalist_results.front().seconds == Approx(tiny_optimum(problem).seconds).epsilon(1e-9));
}

TEST_CASE("a stopped enumeration returns the plan found so far") {
  api::PlanRequest request{tiny_problem(3)};
  for (int calls = 1; calls < 2000; calls += 97) {
    CAPTURE(calls);
    int left = calls;
    request.options.common.stop = [&] { return --left < 0; };
    const api::FoundPlans result = api::find_plans(request);
    CHECK(result.plans.size() >= 1);
    CHECK(result.best().deficit_bytes <= 0);
  }
}

TEST_CASE("with open decisions an enumeration is as good as the best of those without") {
  Problem problem = tiny_problem(0);
  problem.job.training.global_batch = 4;
  problem.job.automatic = {Setting::gradient_sync, Setting::micro_batch};
  api::PlanRequest request{problem};
  request.options.common.prove = true;  // all combinations together need more than the default limits
  const api::FoundPlans open = api::find_plans(request);
  CHECK(open.found.stopped == search::Stopped::optimal);
  double best_s = infinity;
  problem.job.automatic = {};
  for (const GradientSyncTraits& sync : gradient_sync_table()) {
    if (!sync.is_candidate) continue;
    for (const int micro_batch : {1, 2, 4}) {
      problem.job.execution.gradient_sync = sync.kind;
      problem.job.execution.micro_batch = micro_batch;
      best_s = std::min(best_s, api::find_plans({problem}).finalist_results.front().seconds);
    }
  }
  CHECK(open.finalist_results.front().seconds == Approx(best_s).epsilon(1e-9));
}

TEST_CASE("an enumeration does not depend on the number of threads") {
  api::PlanRequest request{tiny_problem(7)};
  const api::FoundPlans one = api::find_plans(request);
  request.options.common.threads = 3;
  const api::FoundPlans three = api::find_plans(request);
  CHECK(one.best().plan == three.best().plan);
  CHECK(one.found.evaluations == three.found.evaluations);
}

TEST_CASE("tensor parallelism is not enumerated") {
  Problem problem = tiny_problem(0);
  for (Device& device : problem.topology.edit().devices) device.host /= 2;
  problem.job.parallelism.tensor = 2;
  CHECK_FALSE(search::can_enumerate(problem, {}, {}));
  CHECK_FALSE(search::enumerate_plans(problem, {}, infinity, {}, {}).is_complete);
  CHECK(search::can_enumerate(tiny_problem(0), {}, {}));
}
