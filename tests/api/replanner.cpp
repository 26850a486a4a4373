#include "planner/api/replanner.hpp"

#include <optional>
#include <variant>
#include <vector>

#include "simulator/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;

// A layer has 16 MB of state and 1 MB of activations per micro-batch, so that a device of 41 MB holds all
// eight micro-batches of one layer, but only four micro-batches of two layers. Device 3 is unavailable, and
// some device must compute two of the four layers: two rounds of (4 + 3 · 2) · 3 s. Without a flush between
// them it would be (4 + 7 · 2) · 3 s, and 48 MB.
TEST_CASE("a new plan is simulated with the flushes that memory requires on fewer devices") {
  Problem problem{flat_topology({4}, link_of(0, 1e5), link_of(0, 1e5)), chain_job(4, 1e6, 100), {}};
  problem.topology.edit().gpus[0].memory = Bytes(41e6);
  for (Layer& layer : std::get<LayerChain>(problem.job.model).layers) layer.activation_memory = Bytes(1e6);
  problem.job.training.global_batch = 8;
  Scenario scenario;
  scenario.on_failure = FailurePolicy::replan;
  scenario.events = {{0, 3, DeviceEvent::Kind::leave}};
  SimOptions options;
  options.iterations = 2;
  std::optional<Plan> chosen;
  const Replanner replan = api::make_replanner(problem);
  options.replan = [&](const Plan& running, const std::vector<bool>& available) {
    return chosen = replan(running, available);
  };
  const SimReport report = simulate(problem, plan_of(problem.job, 4, 1, 8), scenario, options);
  REQUIRE(chosen);
  CHECK(chosen->execution.flush == 4);
  CHECK(report.out_of_memory.empty());
  REQUIRE(report.iterations.size() == 2);
  // Messages of 100 bytes take a millisecond each.
  for (const IterationReport& it : report.iterations) CHECK(it.duration_s() == Approx(60).epsilon(0.001));
}
