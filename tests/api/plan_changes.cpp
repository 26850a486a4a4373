#include <cmath>

#include "planner/api/api.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;

namespace {

/// Returns `devices` devices at one site, and a chain of four layers with four micro-batches.
Problem small_problem(int devices) {
  Problem problem{flat_topology({devices}, link_of(1e-4, 1e9), link_of(1e-4, 1e9)), chain_job(4, 1e7, 1e7),
                  Calibration{1, 0, 1, 0}};
  problem.job.training.global_batch = 4;
  return problem;
}

api::RunningPlan running_plan(const Problem& problem, int stages, int replicas) {
  api::RunningPlan running{plan_of(problem.job, stages, replicas, 4 / replicas), {}, problem.job};
  for (const Device& device : problem.topology->devices) running.ids.push_back(device.id);
  return running;
}

}  // namespace

TEST_CASE("models differ in the number of layers first, then in the parameters of a layer") {
  using Kind = api::ModelDifference::Kind;
  const Job job = chain_job(4, 1e7, 1e7);
  CHECK_FALSE(api::model_difference(job, job));
  const auto count = api::model_difference(job, chain_job(3, 1e7, 1e7));
  REQUIRE(count);
  CHECK(count->kind == Kind::layer_count);
  CHECK(count->from == 4);
  CHECK(count->to == 3);
  const auto parameters = api::model_difference(job, chain_job(4, 2e7, 1e7));
  REQUIRE(parameters);
  CHECK(parameters->kind == Kind::parameters);
  CHECK(parameters->layer == 0);
  CHECK(parameters->to == 2e7);
}

TEST_CASE("a search that starts from a running plan reports whether and why the plan changes") {
  const Problem problem = small_problem(4);
  api::PlanRequest request{problem};
  request.options.common.evaluations = 500;
  request.options.warm =
      api::warm_start(running_plan(problem, 2, 2), problem.topology, api::default_horizon_s);
  const api::FoundPlans unchanged = api::find_plans(request);
  const api::WarmStartResult kept = api::compare_with_running(request.options, unchanged);
  CHECK(kept.obstacle == api::ContinuationObstacle::none);
  CHECK(kept.devices == 4);
  CHECK(kept.devices_gone == 0);
  REQUIRE(kept.gain);
  CHECK(kept.gain->value >= 0);
  if (kept.keeps_plan) CHECK(kept.migration.bytes == 0);

  request.near_equal = 0.9;  // would prefer almost any plan that is less sensitive
  CHECK(api::find_plans(request).best().plan == unchanged.best().plan);

  request.problem = small_problem(3);  // the last device of the running plan is gone
  request.options.warm =
      api::warm_start(running_plan(problem, 2, 2), request.problem.topology, api::default_horizon_s);
  const api::WarmStartResult changed = api::compare_with_running(request.options, api::find_plans(request));
  CHECK(changed.obstacle == api::ContinuationObstacle::devices_gone);
  CHECK(changed.devices_gone == 1);
  CHECK_FALSE(changed.keeps_plan);
  CHECK_FALSE(changed.gain);
}

// Device 0 has the first two of four layers of 1e7 parameters, and fetches the other two from device 1.
TEST_CASE(
    "a migration between two plans lists what each device must fetch, and from where if links are known") {
  const Problem problem = small_problem(2);
  const auto warm = [&](int stages) {
    return api::warm_start(running_plan(problem, stages, 1), problem.topology, 0);
  };
  const api::PlanMigration known = api::migration_between(problem, warm(2), warm(1), true);
  CHECK(known.steps > 0);
  CHECK(api::migration_steps(problem, warm(2), 1) == known.steps);
  REQUIRE(known.summary);
  REQUIRE(known.summary->devices.size() == 1);
  CHECK(known.summary->devices.front().device == 0);
  CHECK(known.summary->devices.front().layers == std::vector<std::pair<int, int>>{{2, 4}});
  CHECK(known.summary->devices.front().sources == std::vector<int>{1});
  REQUIRE(known.summary->seconds);
  CHECK(*known.summary->seconds > 0);

  const api::PlanMigration unknown = api::migration_between(problem, warm(2), warm(1), false);
  CHECK(unknown.steps == 0);
  REQUIRE(unknown.summary);
  CHECK(unknown.summary->bytes == known.summary->bytes);
  CHECK(unknown.summary->devices.front().sources.empty());
  CHECK_FALSE(unknown.summary->seconds);
  CHECK(api::migration_between(problem, warm(2), warm(2), true).summary->devices.empty());
}

// Stage 0 of pipeline 0 is on device 0, stage 1 on device 1; then all layers are on device 0.
TEST_CASE("devices that leave a plan and devices with other layers are listed by id") {
  const Problem problem = small_problem(2);
  const api::RunningPlan two = running_plan(problem, 2, 1), one = running_plan(problem, 1, 1);
  CHECK(api::compare_devices(two, two).is_same());
  const api::DeviceDiff diff = api::compare_devices(two, one);
  CHECK(diff.enter.empty());
  CHECK(diff.leave == std::vector<std::string>{"s0/1"});
  REQUIRE(diff.changes.size() == 1);
  CHECK(diff.changes.front().id == "s0/0");
  CHECK(diff.changes.front().first.layers == std::vector<std::pair<int, int>>{{0, 2}});
  CHECK(diff.changes.front().second.layers == std::vector<std::pair<int, int>>{{0, 4}});
  CHECK(diff.changes.front().first.after == std::vector<std::string>{"s0/1"});
  CHECK(diff.changes.front().first.has_other_layers(diff.changes.front().second));
}

// Device 0 has layers 0 and 1 of four and fetches the others from device 1.
TEST_CASE("compared plans of the same model have a migration, whose duration is unknown without a network") {
  const Problem problem = small_problem(2);
  const api::RunningPlan two = running_plan(problem, 2, 1), one = running_plan(problem, 1, 1);
  api::PlanDiffRequest request{two, one, {api::topology_without_links(two, one), one.job, {}, {}}};
  const api::PlanDiff diff = api::compare_plans(request);
  CHECK_FALSE(diff.models);
  REQUIRE(diff.migration.summary);
  REQUIRE(diff.migration.summary->devices.size() == 1);
  CHECK(diff.migration.summary->devices.front().layers == std::vector<std::pair<int, int>>{{2, 4}});
  CHECK_FALSE(diff.migration.summary->seconds);
  request.first.job = chain_job(3, 1e7, 1e7);
  const api::PlanDiff other = api::compare_plans(request);
  CHECK(other.models.value().kind == api::ModelDifference::Kind::layer_count);
  CHECK_FALSE(other.migration.summary);
}

TEST_CASE("a Pareto front by simulated times has no dominated plan") {
  api::PlanRequest request{small_problem(4)};
  request.options.common.evaluations = 500;
  request.options.keeps_pareto_front = true;
  const api::FoundPlans result = api::find_plans(request);
  REQUIRE(result.front);
  const auto points = api::pareto_points({*result.front, result.pareto_results});
  REQUIRE_FALSE(points.empty());
  for (std::size_t i = 0; i < points.size(); ++i) {
    REQUIRE(points[i].simulated);
    if (i > 0) {  // slower, so it must use fewer devices; prices are unknown
      CHECK(points[i].simulated->iteration_s > points[i - 1].simulated->iteration_s);
      CHECK(points[i].devices < points[i - 1].devices);
    }
  }
}
