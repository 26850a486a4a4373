// Plans for devices that leave.
#include "planner/api/churn_plans.hpp"

#include <algorithm>
#include <cmath>

#include "planner/api/find_plans.hpp"
#include "planner/search/iteration_time/fit_plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::api;

namespace {

/// Devices that leave for good, each at its time.
NamedScenario departures(const std::vector<std::pair<double, int>>& of, double horizon_s) {
  NamedScenario named{"churn", {}};
  named.scenario.name = "churn";
  named.scenario.horizon_s = horizon_s;
  for (const auto& [date, device] : of) named.scenario.events.push_back({date, device});
  return named;
}

PlanRequest request_under(const Problem& problem, NamedScenario churn) {
  PlanRequest request{problem};
  request.options.common.evaluations = 6'000;
  request.scenarios.push_back(std::move(churn));
  return request;
}

/// A layer takes 3 s per micro-batch. Two devices, on each of which a replica with exactly four micro-batches
/// in flight fits.
Problem tight_problem() {
  Problem problem{flat_topology({2}, link_of(0, 1e9), link_of(0, 1e9)), chain_job(2, 10, 100), {}, {}};
  problem.job.training.global_batch = 8;
  const cost::IterationModel model(problem);
  const double needed = cost::device_memory(model, plan_of(problem.job, 1, 2, 4)).front().needed;
  problem.topology.edit().gpus[0].memory = Bytes(needed);
  return problem;
}

}  // namespace

TEST_CASE("departures are those of devices, not changes of speed") {
  NamedScenario named{"slow", {}};
  named.scenario.events = {{1, 0, sim::DeviceEvent::Kind::speed, 0.5}};
  CHECK(!has_departures(named.scenario));
  CHECK(!is_under_churn({nominal_scenario(), named}));
  CHECK(is_under_churn({nominal_scenario(), departures({{1, 0}}, 10)}));
}

// One device leaves, and the other has all eight micro-batches, twice as many as fit in its memory at a time.
TEST_CASE("under churn, pipelines flush so that they can take over micro-batches") {
  const Problem problem = tight_problem();
  const FoundPlans result = find_plans(request_under(problem, departures({{100, 1}}, 1000)));
  REQUIRE(result.completes_iteration());
  CHECK(result.best().shape() == search::Shape{1, 2});
  CHECK(result.best().plan.execution.flush == 4);
  // Two devices compute four micro-batches of 6 s each, four times in 100 s. Then one computes eight, 18
  // times in 900 s.
  const std::vector<SimulatedTimes> times = result.simulated();
  REQUIRE(times.size() == 2);
  CHECK(times[1].mean_s == Approx(1000.0 / 22));
  // The fastest plan without churn is as fast without it, and never completes an iteration with it.
  REQUIRE(result.fastest_undisturbed.size() == 2);
  CHECK(times[0].mean_s == result.fastest_undisturbed[0].mean_s);
  CHECK(std::isinf(result.fastest_undisturbed[1].mean_s));
}

TEST_CASE("without departures there are no plans for churn") {
  NamedScenario slow{"slow", {}};
  slow.scenario.events = {{1, 0, sim::DeviceEvent::Kind::speed, 0.5}};
  const FoundPlans result = find_plans(request_under(tight_problem(), slow));
  CHECK(result.fastest_undisturbed.empty());
  CHECK(!result.best().plan.execution.flush);
}

// Two of four devices leave at once and never return. A pipeline over all of them would never run. With one
// more on the two that leave, as many iterations would be completed.
TEST_CASE("under churn, plans avoid devices that are hardly ever available") {
  Problem problem{flat_topology({4}, link_of(0, 1e9), link_of(0, 1e9)), chain_job(4, 1e8, 100), {}, {}};
  problem.job.training.global_batch = 8;
  // Two devices hold the model, but one does not.
  problem.topology.edit().gpus[0].memory = Bytes(4e9);
  const FoundPlans result = find_plans(request_under(problem, departures({{0.5, 1}, {0.5, 3}}, 1000)));
  REQUIRE(result.completes_iteration());
  for (const int device : pipeline_major(result.best().plan)) CHECK(device % 2 == 0);
}

TEST_CASE("without a horizon, devices that left for good count as hardly ever available") {
  Problem problem{flat_topology({4}, link_of(0, 1e9), link_of(0, 1e9)), chain_job(4, 1e8, 100), {}, {}};
  problem.job.training.global_batch = 8;
  problem.topology.edit().gpus[0].memory = Bytes(4e9);
  for (const double date : {0.0, 0.5}) {
    CAPTURE(date);
    NamedScenario churn = departures({{date, 1}, {date, 3}}, 0);
    churn.scenario.horizon_s.reset();
    const FoundPlans result = find_plans(request_under(problem, churn));
    REQUIRE(result.completes_iteration());
    for (const int device : pipeline_major(result.best().plan)) CHECK(device % 2 == 0);
  }
}

TEST_CASE("if no plan completes an iteration, the fastest undisturbed one is chosen") {
  Problem problem = tight_problem();
  problem.topology.edit().gpus[0].memory = Bytes(1e15);
  const FoundPlans result = find_plans(request_under(problem, departures({{1, 0}, {1, 1}}, 1000)));
  CHECK(!result.completes_iteration());
  CHECK(result.best().plan == result.found.finalists.front().plan);
  CHECK(pipeline_major(result.best().plan).size() == 2);
}

// The only device that never leaves has no known speed.
TEST_CASE("devices that cannot be used do not end the search for plans for churn") {
  Problem problem = tight_problem();
  problem.topology = flat_topology({3}, link_of(0, 1e9), link_of(0, 1e9));
  problem.topology.edit().devices[2].gpu = -1;
  problem.topology.edit().devices[2].speed = 0;
  const FoundPlans result = find_plans(request_under(problem, departures({{500, 0}, {600, 1}}, 1000)));
  CHECK(result.completes_iteration());
  for (const int device : pipeline_major(result.best().plan)) CHECK(device < 2);
}

TEST_CASE("plans for churn differ from each other, and flush only where that frees memory") {
  Problem problem = tight_problem();
  problem.topology.edit().gpus[0].memory = Bytes(1e15);
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b}) {
    problem.job.execution.schedule = schedule;
    const FoundPlans result = find_plans(request_under(problem, departures({{1, 1}}, 1000)));
    for (std::size_t i = 0; i < result.plans.size(); ++i) {
      CHECK(!result.plans[i].plan.execution.flush);
      for (std::size_t k = 0; k < i; ++k) CHECK(!(result.plans[i].plan == result.plans[k].plan));
    }
  }
}

TEST_CASE("a fixed sharding is an error where devices leave, and an open one is none") {
  Problem problem = tight_problem();
  problem.job.execution.gradient_sync = GradientSync::ring;
  problem.job.automatic[Setting::optimizer_sharding] = true;
  const FoundPlans open = find_plans(request_under(problem, departures({{1, 1}}, 1000)));
  CHECK(open.best().plan.execution.optimizer_sharding == OptimizerSharding::none);
  problem.job.automatic[Setting::optimizer_sharding] = false;
  problem.job.execution.optimizer_sharding = OptimizerSharding::zero1;
  CHECK(
      error_message([&] {
        find_plans(request_under(problem, departures({{1, 1}}, 1000)));
      }) ==
      "optimizer_sharding zero1 cannot run under these scenarios, because no other device has the optimizer "
      "shards of a device that leaves; use a checkpoint with policy `restart` or `wait`, or "
      "`optimizer_sharding: none`");
}

// Two replicas of 2e8 parameters fit in memory only if they share the optimizer state: 16 bytes per parameter
// are 3.2 GB, and 10 bytes with zero1 are 2 GB.
TEST_CASE("with a checkpoint, sharded plans are found that survive departures") {
  Problem problem{flat_topology({2}, link_of(0, 1e9), link_of(0, 1e9)), chain_job(2, 1e8, 100), {}, {}};
  problem.job.training.global_batch = 8;
  problem.job.execution.gradient_sync = GradientSync::ring;
  problem.job.automatic[Setting::optimizer_sharding] = true;
  problem.topology.edit().gpus[0].memory = Bytes(2.5e9);
  PlanRequest request = request_under(problem, departures({{100, 1}}, 1000));
  request.options.limits.stages = 1;
  request.options.limits.replicas = 2;
  sim::Scenario& scenario = request.scenarios.back().scenario;
  scenario.events.push_back({200, 1, sim::DeviceEvent::Kind::join});
  CHECK(find_plans(request).simulation == SimulationStatus::out_of_memory);
  scenario.checkpoint = sim::Checkpoint{8e9, {}, 0};
  scenario.on_failure = sim::FailurePolicy::wait;
  const FoundPlans waits = find_plans(request);
  REQUIRE(waits.simulation == SimulationStatus::done);
  CHECK(waits.completes_iteration());
  CHECK(waits.best().plan.execution.optimizer_sharding != OptimizerSharding::none);
  // Nothing fits in the memory of the device that remains.
  scenario.on_failure = sim::FailurePolicy::restart;
  CHECK_FALSE(find_plans(request).completes_iteration());
  // If unsharded replicas fit, they are the only ones that a device can continue alone.
  request.problem.topology.edit().gpus[0].memory = Bytes(3.5e9);
  CHECK(find_plans(request).completes_iteration());
}

TEST_CASE("plans for churn do not depend on the number of threads") {
  const Problem problem = tight_problem();
  PlanRequest request = request_under(problem, departures({{1, 1}}, 1000));
  const FoundPlans one = find_plans(request);
  request.options.common.threads = 3;
  const FoundPlans three = find_plans(request);
  CHECK(one.best().plan == three.best().plan);
  CHECK(one.simulated()[1].mean_s == three.simulated()[1].mean_s);
}

TEST_CASE("plans for churn keep the evaluation budget") {
  Problem problem{flat_topology({6}, link_of(0, 1e9), link_of(0, 1e9)), chain_job(6, 1e6, 100), {}, {}};
  problem.job.training.global_batch = 12;
  // With open sharding, no sharded plan completes an iteration, so that the search is repeated.
  for (const bool is_open : {false, true})
    for (const long long most : {1'000, 3'000, 20'000}) {
      CAPTURE(is_open, most);
      NamedScenario scenario = departures({{0.5, 1}, {0.5, 3}}, 1000);
      if (is_open) {
        scenario.scenario.checkpoint = sim::Checkpoint{8e9, {}, 600};
        scenario.scenario.on_failure = sim::FailurePolicy::restart;
        for (int device = 0; device < 6; ++device)
          scenario.scenario.events.push_back({1, device, sim::DeviceEvent::Kind::leave});
      }
      PlanRequest request = request_under(problem, scenario);
      request.problem.job.automatic[Setting::optimizer_sharding] = is_open;
      request.options.common.evaluations = most;
      CHECK(find_plans(request).found.evaluations <= most + most / 100);
    }
}

// Two replicas with one micro-batch of 3 s each on devices of 1 and 2 USD/h; the first leaves at 31 s for
// good. With redistribution, the other computes both. Without, it waits for the first to come back, and is
// paid.
TEST_CASE("devices are paid while they wait, and not while they are away") {
  Problem problem{flat_topology({2}, link_of(0, 1e15), link_of(0, 1e15)), chain_job(1, 0, 1), {}};
  problem.job.training.global_batch = 2;
  problem.topology.edit().devices[0].price = DollarsPerHour(1);
  problem.topology.edit().devices[1].price = DollarsPerHour(2);
  const auto job = std::make_shared<const search::DecidedJob>(
      problem, problem.job, std::vector{1},
      std::make_shared<const cost::NetworkCost>(problem.topology, problem.constants));
  const search::PlanScore score(Objective::cost_per_token, problem.topology);
  const search::PlanCandidate candidate = search::evaluate_plan(job, plan_of(problem.job, 1, 2, 1), score);
  CHECK(candidate.score == Approx(3 * 3 / 3600.0));
  NamedScenario named = departures({{31, 0}}, 100);
  named.scenario.events.push_back({61, 0, sim::DeviceEvent::Kind::join});
  named.scenario.on_failure = sim::FailurePolicy::wait;
  const FinalistResult result =
      simulate_finalists({candidate}, {nominal_scenario(), named}, RobustCriterion::mean, 1).front();
  REQUIRE(result.simulated.size() == 2);
  // Iterations end at 3, 6, …, 30 s, from 61 s on at 64, …, 100 s: 10 + 13 in 100 s. The first device is away
  // for 30 of them: (1 · 70 + 2 · 100) ÷ 300.
  CHECK(result.simulated[0].paid_share == 1);
  CHECK(result.simulated[1].mean_s == Approx(100.0 / 23));
  CHECK(result.simulated[1].paid_share == Approx(270.0 / 300));
  CHECK(result.paid_share == Approx(0.9));
}
