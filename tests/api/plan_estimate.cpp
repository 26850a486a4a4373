#include <cmath>

#include "planner/api/api.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;

namespace {

/// Returns a request for two sites of three devices each, and a chain of four layers with eight
/// micro-batches.
api::PlanRequest small_request() {
  api::PlanRequest request{Problem{flat_topology({3, 3}, link_of(1e-4, 1e9), link_of(0.05, 1e8)),
                                   chain_job(4, 1e7, 1e7), Calibration{1, 0, 1, 0}}};
  request.problem.job.training.global_batch = 8;
  request.options.common.evaluations = 2000;
  return request;
}

}  // namespace

TEST_CASE("the estimate of a plan is that of the search, with its throughput and memory") {
  const api::FoundPlans planned = api::find_plans(small_request());
  const api::PlanEstimate estimate = api::estimate_plan(planned.best());
  CHECK(estimate.iteration_s == Approx(planned.best().iteration_s).epsilon(1e-12));
  CHECK(estimate.tokens_per_s * estimate.iteration_s == Approx(8));  // sequences of one token
  CHECK(estimate.iteration_s ==
        Approx(estimate.pipelines_s + estimate.exposed_sync_s + estimate.update_s + estimate.overhead_s));
  CHECK(estimate.memory.size() == pipeline_major(planned.best().plan).size());
  CHECK_FALSE(estimate.usd_per_million_tokens);  // the topology has no prices
  CHECK(estimate.egress_usd_per_million_tokens == 0);
}

// Two devices at 1 USD/h that compute for an hour cost 2 USD.
TEST_CASE("the estimated cost per token is the price of the devices over their throughput") {
  api::PlanRequest request = small_request();
  for (Gpu& gpu : request.problem.topology.edit().gpus) gpu.price = DollarsPerHour(1);
  const Plan plan = plan_of(request.problem.job, 2, 1, 8);
  const api::PlanEstimate estimate = api::score(request, {plan}).estimate.value();
  REQUIRE(estimate.usd_per_million_tokens);
  CHECK(*estimate.usd_per_million_tokens == Approx(2.0 / 3600 / estimate.tokens_per_s * 1e6));
}

TEST_CASE("no plan beats the lower bound of its objective") {
  for (const Objective objective :
       {Objective::iteration_time, Objective::cost_per_token, Objective::device_efficiency}) {
    CAPTURE(static_cast<int>(objective));
    api::PlanRequest request = small_request();
    for (Gpu& gpu : request.problem.topology.edit().gpus) gpu.price = DollarsPerHour(1);
    request.options.objective = objective;
    const api::FoundPlans planned = api::find_plans(request);
    const auto bound = api::lower_bound(request.options, planned.best(), planned.simulated());
    REQUIRE(bound);
    CHECK(bound->value > 0);
    CHECK(bound->value <= bound->cost * (1 + 1e-9));
    CHECK_FALSE(bound->method.empty());
    if (objective == Objective::iteration_time) CHECK(bound->cost == planned.simulated().front().mean_s);
  }
}

TEST_CASE(
    "plan and score give a prediction interval from the spread of the constants, else from published runs") {
  api::PlanRequest request = small_request();
  const auto published = api::find_plans(request).interval;
  REQUIRE(published);
  CHECK(published->source.starts_with("published runs, "));
  request.spread = CalibrationUncertainty{0.1, 8, {}};
  const api::FoundPlans planned = api::find_plans(request);
  REQUIRE(planned.interval);
  CHECK(planned.interval->source == "calibration");
  CHECK(planned.interval->low_s < planned.simulated().front().mean_s);
  CHECK(planned.interval->high_s > planned.simulated().front().mean_s);

  const search::PlanCandidate& best = planned.best();
  api::PlanRequest scored{api::simulated_problem(best)};
  scored.spread = request.spread;
  const auto interval = api::score(scored, {best.plan}).interval;
  REQUIRE(interval);
  CHECK(interval->low_s == planned.interval->low_s);
  CHECK(interval->high_s == planned.interval->high_s);

  request.options.common.stop = [] { return true; };
  CHECK_FALSE(api::find_plans(request).interval);
}

TEST_CASE("the explanation of a plan has its estimated iteration time") {
  const api::FoundPlans planned = api::find_plans(small_request());
  const cost::PlanExplanation explained = api::explain_plan(planned.best(), 1).value();
  CHECK_FALSE(api::explain_plan(planned.best(), {1, nullptr, [] { return true; }}));
  CHECK(explained.now.iteration_s == Approx(planned.best().iteration_s).epsilon(1e-12));
}
