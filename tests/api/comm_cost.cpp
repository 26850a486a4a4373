#include <algorithm>
#include <atomic>

#include "planner/api/api.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;

namespace {

/// Returns a request for two stages on two sites of two devices each. Messages between sites are slow, and
/// gradients are a hundred times as large as activations, so each stage belongs on one site.
api::PlanRequest two_site_request(const std::string& strategy) {
  api::PlanRequest request{
      {flat_topology({2, 2}, link_of(1e-4, 1e9), link_of(0.05, 1e7)), chain_job(4, 1e7, 1e5), {}, {}}};
  request.problem.job.comm_cost = CommVolumes{Bytes(1e8), Bytes(1e6)};
  request.options.objective = Objective::comm_cost;
  request.options.limits.stages = 2;
  request.strategy = strategy;
  return request;
}

/// Returns the devices in file order, stage by stage.
Placement file_order(int stages, int replicas) {
  Placement placement(stages, replicas);
  for (int stage = 0; stage < stages; ++stage)
    for (int replica = 0; replica < replicas; ++replica)
      placement.at(stage, replica) = stage * replicas + replica;
  return placement;
}

}  // namespace

TEST_CASE("planning by communication cost gives what the strategy finds") {
  for (const char* strategy : {"identity", "exhaustive", "evolutionary"}) {
    CAPTURE(strategy);
    const api::PlanRequest request = two_site_request(strategy);
    const api::PlanAnswer result = api::plan(request);
    const search::SearchResult found =
        search::search_comm_cost(result.comm_cost.value().problem.model, strategy, request.options.common);
    CHECK(result.comm_cost->placement == found.placement);
    CHECK(result.comm_cost->cost.total() == found.cost.total());
    CHECK(result.lower_bound.value().value == found.lower_bound.value);
    CHECK(result.search.value().evaluations == found.evaluations);
    CHECK(result.plan == plan_from_placement(found.placement, result.problem.job));
    CHECK(result.problem.job.parallelism.pipeline == 2);
    CHECK(result.problem.job.parallelism.data == 2);
  }
}

// Inside a site a shard of 5e7 bytes takes 0.0001 + 0.05 s, in both directions; a hop between the sites takes
// 0.05 + 0.1 s, in both directions.
TEST_CASE("the exhaustive strategy puts each stage on one site") {
  const api::PlanAnswer result = api::plan(two_site_request("exhaustive"));
  CHECK(result.stopped() == search::Stopped::complete);
  CHECK(result.comm_cost->cost.data_parallel == Approx(2 * (1e-4 + 0.05)));
  CHECK(result.comm_cost->cost.pipeline_parallel == Approx(2 * (0.05 + 0.1)));
  for (int stage = 0; stage < 2; ++stage)
    CHECK(result.comm_cost->placement.at(stage, 0) / 2 == result.comm_cost->placement.at(stage, 1) / 2);
}

TEST_CASE("numbers of stages and replicas come from the limits, then the job, then its volumes") {
  api::PlanRequest request = two_site_request("identity");
  const auto stages = [&] { return api::plan(request).comm_cost.value().placement.stages(); };
  request.problem.job.parallelism.pipeline = 4;
  CHECK(stages() == 2);
  request.options.limits = {{}, 4};
  CHECK(stages() == 1);
  request.options.limits = {};
  CHECK(stages() == 4);
  request.problem.job.parallelism.pipeline.reset();
  request.problem.job.parallelism.data = 2;
  CHECK(stages() == 2);
  request.problem.job.parallelism.data.reset();
  request.problem.job.comm_cost_stages = 4;
  CHECK(stages() == 4);
  request.problem.job.comm_cost_stages.reset();
  CHECK_THROWS_AS(stages(), search::NoSuchShape);
  request.options.limits.stages = 3;
  CHECK_THROWS_AS(stages(), search::NoSuchShape);
  request.options.limits = {2, 1};
  CHECK_THROWS_AS(stages(), search::NoSuchShape);
}

TEST_CASE("planning by communication cost reports its progress") {
  api::PlanRequest request = two_site_request("random");
  long long calls = 0;
  request.options.common.on_progress = [&](const Progress& progress) {
    ++calls;
    CHECK(progress.best > 0);
  };
  api::plan(request);
  CHECK(calls > 0);
}

TEST_CASE("a cancelled search by communication cost returns the best placement so far") {
  for (const bool from_the_start : {true, false}) {
    CAPTURE(from_the_start);
    api::PlanRequest request = two_site_request("random");
    request.options.common.evaluations = 1'000'000'000'000;
    std::atomic<bool> cancelled = from_the_start;
    request.options.common.on_progress = [&](const Progress&) { cancelled = true; };
    request.options.common.stop = [&] { return cancelled.load(); };
    const api::PlanAnswer result = api::plan(request);
    CHECK(result.search.value().evaluations == 64);  // the first batch
    CHECK(result.comm_cost->cost.total() > 0);
    CHECK(result.plan.pipelines.size() == 2);
  }
}

TEST_CASE("a scored placement costs what the identity strategy finds, and no less than its best deployment") {
  const api::PlanRequest request = two_site_request("identity");
  const api::PlanAnswer planned = api::plan(request);
  const api::PlanAnswer scored = api::score(request, {planned.plan});
  REQUIRE(planned.comm_cost);
  REQUIRE(scored.comm_cost);
  CHECK(scored.comm_cost->cost.data_parallel == planned.comm_cost->cost.data_parallel);
  CHECK(scored.comm_cost->cost.pipeline_parallel == planned.comm_cost->cost.pipeline_parallel);
  CHECK(scored.comm_cost->best_deployment.value().total() <= scored.comm_cost->cost.total());
  const Plan by_site = plan_from_placement(file_order(2, 2), request.problem.job);
  CHECK(api::score(request, {by_site}).comm_cost->cost.data_parallel == Approx(2 * (1e-4 + 0.05)));
}

TEST_CASE("communication cost rejects tensor parallelism, adaptive compression and unknown strategies") {
  api::PlanRequest request = two_site_request("identity");
  request.strategy = "genetik";
  CHECK(error_message([&] { api::plan(request); }).find("genetik") != std::string::npos);
  request = two_site_request("identity");
  request.problem.job.parallelism.tensor = 2;
  CHECK(error_message([&] { api::plan(request); }).find("tensor 2") != std::string::npos);
  const Plan plan = plan_from_placement(file_order(2, 2), request.problem.job);
  CHECK_THROWS_AS(api::score(request, {plan}), Error);
  request = two_site_request("identity");
  request.problem.job.execution.compression.bandwidth_threshold = BitsPerSecond(1e9);
  CHECK_THROWS_AS(api::plan(request), Error);
}

TEST_CASE("the steps of an answer by communication cost add up to its cost") {
  for (const char* strategy : {"identity", "exhaustive"}) {
    CAPTURE(strategy);
    const api::PlanRequest request = two_site_request(strategy);
    for (const api::PlanAnswer& answer :
         {api::plan(request), api::score(request, {api::plan(request).plan})}) {
      const auto& [syncs, hops] = answer.comm_cost.value().steps;
      double slowest = 0, sum = 0;
      for (const api::CommCostSteps::Sync& it : syncs) slowest = std::max(slowest, it.seconds);
      for (const api::CommCostSteps::Hop& it : hops) sum += it.seconds;
      CHECK(slowest == Approx(answer.comm_cost->cost.data_parallel));
      CHECK(sum == Approx(answer.comm_cost->cost.pipeline_parallel));
    }
  }
}

// Both stages have their devices on one site, as in file order. A shard of 5e7 bytes takes 0.0001 + 0.05 s in
// both directions; a hop between the sites takes 0.05 + 0.1 s in both directions.
TEST_CASE("an answer by communication cost has its slowest steps and their links") {
  const api::PlanRequest request = two_site_request("identity");
  const Plan plan = plan_from_placement(file_order(2, 2), request.problem.job);
  const api::CommCostSteps steps = api::score(request, {plan}).comm_cost.value().steps;
  REQUIRE(steps.syncs.size() == 2);
  CHECK(steps.syncs[1].seconds == Approx(2 * (1e-4 + 0.05)));
  CHECK(steps.syncs[1].device == 2);
  CHECK(steps.syncs[1].link == std::pair(2, 3));
  REQUIRE(steps.hops.size() == 1);
  CHECK(steps.hops[0].seconds == Approx(2 * (0.05 + 0.1)));
  CHECK(steps.hops[0].pipeline == 0);
  CHECK(steps.hops[0].link == std::pair(0, 2));
}
