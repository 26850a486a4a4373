#include <atomic>

#include "planner/api/api.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;

namespace {

/// Returns a request for two stages on two sites of two devices each. Messages between sites are slow, and
/// gradients are a hundred times as large as activations, so each stage belongs on one site.
api::CommCostPlanRequest two_site_request(const std::string& strategy) {
  api::CommCostPlanRequest request{flat_topology({2, 2}, link_of(1e-4, 1e9), link_of(0.05, 1e7)),
                                   chain_job(4, 1e7, 1e5)};
  request.job.comm_cost = CommVolumes{Bytes(1e8), Bytes(1e6)};
  request.limits.stages = 2;
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
    const api::CommCostPlanRequest request = two_site_request(strategy);
    const api::CommCostPlanResult result = api::plan_comm_cost(request);
    const search::SearchResult found =
        search::search_comm_cost(result.problem.model, strategy, request.options);
    CHECK(result.found.placement == found.placement);
    CHECK(result.found.cost.total() == found.cost.total());
    CHECK(result.found.lower_bound.value == found.lower_bound.value);
    CHECK(result.found.evaluations == found.evaluations);
    CHECK(result.plan == plan_from_placement(found.placement, result.problem.job));
    CHECK(result.problem.job.parallelism.pipeline == 2);
    CHECK(result.problem.job.parallelism.data == 2);
  }
}

// Inside a site a shard of 5e7 bytes takes 0.0001 + 0.05 s, in both directions; a hop between the sites takes
// 0.05 + 0.1 s, in both directions.
TEST_CASE("the exhaustive strategy puts each stage on one site") {
  const api::CommCostPlanResult result = api::plan_comm_cost(two_site_request("exhaustive"));
  CHECK(result.found.stopped == search::Stopped::complete);
  CHECK(result.found.cost.data_parallel == Approx(2 * (1e-4 + 0.05)));
  CHECK(result.found.cost.pipeline_parallel == Approx(2 * (0.05 + 0.1)));
  for (int stage = 0; stage < 2; ++stage)
    CHECK(result.found.placement.at(stage, 0) / 2 == result.found.placement.at(stage, 1) / 2);
}

TEST_CASE("numbers of stages and replicas come from the limits, then the job, then its volumes") {
  api::CommCostPlanRequest request = two_site_request("identity");
  const auto stages = [&] { return api::plan_comm_cost(request).found.placement.stages(); };
  request.job.parallelism.pipeline = 4;
  CHECK(stages() == 2);
  request.limits = {{}, 4};
  CHECK(stages() == 1);
  request.limits = {};
  CHECK(stages() == 4);
  request.job.parallelism.pipeline.reset();
  request.job.parallelism.data = 2;
  CHECK(stages() == 2);
  request.job.parallelism.data.reset();
  request.job.comm_cost_stages = 4;
  CHECK(stages() == 4);
  request.job.comm_cost_stages.reset();
  CHECK_THROWS_AS(stages(), search::NoSuchShape);
  request.limits.stages = 3;
  CHECK_THROWS_AS(stages(), search::NoSuchShape);
  request.limits = {2, 1};
  CHECK_THROWS_AS(stages(), search::NoSuchShape);
}

TEST_CASE("planning by communication cost reports its progress") {
  api::CommCostPlanRequest request = two_site_request("random");
  long long calls = 0;
  request.options.on_progress = [&](const Progress& progress) {
    ++calls;
    CHECK(progress.best > 0);
  };
  api::plan_comm_cost(request);
  CHECK(calls > 0);
}

TEST_CASE("a cancelled search by communication cost returns the best placement so far") {
  for (const bool from_the_start : {true, false}) {
    CAPTURE(from_the_start);
    api::CommCostPlanRequest request = two_site_request("random");
    request.options.evaluations = 1'000'000'000'000;
    std::atomic<bool> cancelled = from_the_start;
    request.options.on_progress = [&](const Progress&) { cancelled = true; };
    request.options.stop = [&] { return cancelled.load(); };
    const api::CommCostPlanResult result = api::plan_comm_cost(request);
    CHECK(result.found.evaluations == 64);  // the first batch
    CHECK(result.found.cost.total() > 0);
    CHECK(result.plan.pipelines.size() == 2);
  }
}

TEST_CASE("a scored placement costs what the identity strategy finds, and no less than its best deployment") {
  const api::CommCostPlanRequest request = two_site_request("identity");
  const api::CommCostPlanResult planned = api::plan_comm_cost(request);
  const api::CommCostScoreResult scored =
      api::score_comm_cost({request.topology, request.job, planned.found.placement});
  CHECK(scored.cost.data_parallel == planned.found.cost.data_parallel);
  CHECK(scored.cost.pipeline_parallel == planned.found.cost.pipeline_parallel);
  CHECK(scored.best_deployment.total() <= scored.cost.total());
  CHECK(api::score_comm_cost({request.topology, request.job, file_order(2, 2)}).cost.data_parallel ==
        Approx(2 * (1e-4 + 0.05)));
}

TEST_CASE("communication cost rejects tensor parallelism, adaptive compression and unknown strategies") {
  api::CommCostPlanRequest request = two_site_request("identity");
  request.strategy = "genetik";
  CHECK(error_message([&] { api::plan_comm_cost(request); }).find("genetik") != std::string::npos);
  request = two_site_request("identity");
  request.job.parallelism.tensor = 2;
  CHECK(error_message([&] { api::plan_comm_cost(request); }).find("tensor 2") != std::string::npos);
  CHECK_THROWS_AS(api::score_comm_cost({request.topology, request.job, file_order(2, 2)}), Error);
  request = two_site_request("identity");
  request.job.execution.compression.bandwidth_threshold = BitsPerSecond(1e9);
  CHECK_THROWS_AS(api::plan_comm_cost(request), Error);
}
