// Tests how a running plan whose devices have failed is repaired before the search continues from it.
#include <set>
#include <utility>

#include "tests/support/catch.hpp"
#include "tests/support/warm_start_problems.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::search;

TEST_CASE("a failed device is replaced by the unused device that fits best") {
  // Pipelines 0, 1 and 3, 4 are in two sites of three and four devices; 2, 5 and 6 are unused, 5 at half
  // speed.
  Problem problem = small_problem({3, 4}, 4, 8);
  problem.topology.edit().devices[5].speed = 0.5;
  const Plan before = two_pipelines(problem.job);
  problem.topology = without_device(problem.topology, 4);  // 5 and 6 are now 4 and 5
  const Plan plan = without_device(before, 4);
  const std::shared_ptr<const DecidedJob> job = make_decided(problem, {1}, one_by_one(6), plan).job;
  const PlanScore score(Objective::iteration_time, problem.topology);
  ShapeLimits limits;
  limits.replicas = 2;
  CHECK_FALSE(unchanged_plan(plan, job, limits, score).has_value());
  const auto repaired = repaired_plans(plan, job, limits, score);
  REQUIRE(repaired.size() == 1);
  CHECK(repaired.front().plan.pipelines[1].stages[1].devices == std::vector<int>{5});
  CHECK(devices_of(repaired.front().plan) == std::set<int>{0, 1, 3, 5});

  // Without limits, a third pipeline on the two remaining devices is offered, too.
  CHECK(repaired_plans(plan, job, {}, score).size() == 2);
}

TEST_CASE("a pipeline that cannot be completed is dropped and its micro-batches are redistributed") {
  Problem problem = small_problem({2, 2}, 4, 8);
  const Plan before = plan_of(problem.job, 2, 2, 4);
  problem.topology = without_device(problem.topology, 0);
  const IterationSearchResult found = warm_search(problem, without_device(before, 0), 1e7);
  CHECK_FALSE(found.unchanged.has_value());
  const PlanCandidate& best = found.finalists.front();
  int micro_batches = 0;
  for (const Pipeline& pipeline : best.plan.pipelines) micro_batches += pipeline.micro_batches;
  CHECK(micro_batches == 8);
  CHECK(!devices_of(best.plan).contains(no_device));

  // No migration pays off within this short horizon, so the other pipeline does all the work.
  const PlanCandidate brief = warm_search(problem, without_device(before, 0), 1).finalists.front();
  REQUIRE(brief.plan.pipelines.size() == 1);
  CHECK(brief.plan.pipelines.front().micro_batches == 8);
  CHECK(devices_of(brief.plan) == std::set<int>{1, 2});
  CHECK(brief.migration.seconds == 0);
}

TEST_CASE("a site behind a link that has become slow is dropped") {
  // Three sites with one pipeline each; messages to and from the third now take 100 times as long.
  Problem problem = small_problem({2, 2, 2}, 4, 12);
  problem.job.execution.compression.gradients = 1;
  const Plan plan = plan_of(problem.job, 2, 3, 4);
  auto& rules = std::get<RuleLinks>(problem.topology.edit().links);
  rules.links.push_back(link_of(0.1, 0.25));
  for (int site = 0; site < 2; ++site) rules.table(site, 2) = rules.table(2, site) = 2;
  const auto [job, migration] = make_decided(problem, {1}, one_by_one(6), plan);
  const PlanScore score(Objective::iteration_time, problem.topology, migration, 1e4);
  const auto repaired = repaired_plans(plan, job, {}, score);
  CHECK(!devices_of(repaired.front().plan).contains(4));
  CHECK(!devices_of(repaired.front().plan).contains(5));
  CHECK(repaired.front().score < 0.1 * unchanged_plan(plan, job, {}, score)->score);
}

TEST_CASE("of equally good plans the one with the least migration is chosen") {
  // Three uniform pipelines in one site; pipeline 2 gets three new devices, and all others swap positions.
  Problem problem = small_problem({9}, 6, 12);
  const Plan before = plan_of(problem.job, 3, 2, 6);  // devices 0 … 5
  Plan after = plan_of(problem.job, 3, 3, 4);
  const int order[] = {5, 0, 4, 7, 3, 6, 2, 8, 1};
  for (int i = 0; i < 9; ++i) after.pipelines[at(i / 3)].stages[at(i % 3)].devices = {order[i]};
  const auto [job, cost] = make_decided(problem, {1}, one_by_one(9), before);
  const PlanScore score(Objective::iteration_time, problem.topology, cost, 1e5);
  const PlanCandidate shuffled = evaluate_plan(job, after, score);
  const PlanCandidate minimized = minimize_migration(shuffled, score);
  // Each of the six devices has its old layers; 6, 7 and 8 get two layers of 12,000 bytes each.
  CHECK(cost->of(minimized.plan, 1).bytes == 3 * 24'000);
  CHECK(cost->of(after, 1).bytes > 3 * 24'000);
  CHECK(minimized.score <= shuffled.score * (1 + 1e-9));
  CHECK(minimized.iteration_s == Approx(shuffled.iteration_s));
}

TEST_CASE("a repair counts its evaluations and stops on request") {
  const Problem problem = small_problem({9}, 4, 8);
  const Plan plan = plan_missing_two_devices(problem.job);
  const auto [job, migration] = make_decided(problem, {1}, one_by_one(9), plan);
  const PlanScore score(Objective::iteration_time, problem.topology, migration, 1e6);
  // Two slots and seven tensor-parallel groups for them: first the plan filled as it is; for each slot the
  // five remaining groups; then the repaired plan, and those with one and two additional pipelines. Fitting a
  // plan evaluates it as it is, with its layers split again, and with its micro-batches redistributed.
  constexpr int fit = 3;
  repaired_plans(plan, job, {}, score);
  CHECK(score.evaluated() == 1 + 2 * 5 + fit + 2 * fit);

  for (const int most : {0, 3, 7}) {
    CAPTURE(most);
    int asked = 0;
    const PlanScore counting_score = score.with_own_count();
    const auto stopped = repaired_plans(plan, job, {}, counting_score, [&] { return asked++ >= most; });
    CHECK(counting_score.evaluated() == 1 + most + fit);
    REQUIRE(stopped.size() == 1);
    const std::set<int> used = devices_of(stopped.front().plan);
    CHECK((used.size() == 4 && used.contains(1) && used.contains(2) && !used.contains(no_device)));
  }
}

TEST_CASE("minimizing migration stops on request") {
  const Problem problem = small_problem({4}, 4, 8);
  const Plan before = plan_of(problem.job, 2, 2, 4);
  Plan after = before;
  std::swap(after.pipelines[0].stages[0].devices, after.pipelines[0].stages[1].devices);
  const auto [job, migration] = make_decided(problem, {1}, one_by_one(4), before);
  const PlanScore score(Objective::iteration_time, problem.topology, migration, 1e6);
  const PlanCandidate candidate = evaluate_plan(job, after, score);
  const PlanScore counting_score = score.with_own_count();
  CHECK(minimize_migration(candidate, counting_score, [] { return true; }).plan == after);
  CHECK(counting_score.evaluated() == 1);  // only the returned plan
  CHECK(minimize_migration(candidate, counting_score).migration.seconds == 0);
  CHECK(counting_score.evaluated() == 1 + 2);  // one swap returns both devices to their old stages
}

TEST_CASE("a stage that has lost a device continues with a smaller tensor degree") {
  Problem problem = heterogeneous_hosts();
  Plan plan = heterogeneous_plan(problem.job);
  problem.topology = without_device(problem.topology, 3);  // 4 and 5 are now 3 and 4
  plan = without_device(plan, 3);
  const auto [job, migration] = make_decided(problem, {1, 2}, {{0, 1}, {2}, {3}, {4}}, plan);
  const PlanScore score(Objective::iteration_time, problem.topology, migration, 1e6);
  const auto repaired = repaired_plans(plan, job, {2, 2}, score);
  REQUIRE(repaired.size() == 1);
  const Plan& narrower = repaired.front().plan;
  CHECK(narrower.tensor == 2);
  CHECK(narrower.pipelines[0].stages[0].devices == std::vector{0, 1});
  CHECK(narrower.pipelines[0].stages[1].devices == std::vector{2});
  CHECK(narrower.pipelines[1].stages[0].devices == std::vector{3});
  CHECK(narrower.pipelines[1].stages[1].devices == std::vector{4});

  // The search continues from there and finds nothing worse.
  const IterationSearchResult found = warm_search(problem, plan, 1e6);
  CHECK_FALSE(found.unchanged.has_value());
  CHECK(found.finalists.front().score <= repaired.front().score * (1 + 1e-9));
}

TEST_CASE("plans of mixed degrees that can stay do so and their stages return to their devices") {
  const Problem problem = heterogeneous_hosts();
  const Plan before = heterogeneous_plan(problem.job);
  const auto [job, migration] = make_decided(problem, {1, 2}, {{0, 1}, {2, 3}, {4}, {5}}, before);
  const PlanScore score(Objective::iteration_time, problem.topology, migration, 1e6);
  CHECK(unchanged_plan(before, job, {}, score).value().migration.seconds == 0);
  CHECK(uses_tensor_groups(before, *job));
  Plan after = before;
  for (Pipeline& pipeline : after.pipelines)
    std::swap(pipeline.stages[0].devices, pipeline.stages[1].devices);
  const PlanCandidate candidate = evaluate_plan(job, after, score);
  CHECK(candidate.migration.seconds > 0);
  CHECK(minimize_migration(candidate, score).migration.seconds == 0);

  const IterationSearchResult found = warm_search(problem, before, 1e-6);
  REQUIRE(found.unchanged.has_value());
  CHECK(found.finalists.front().migration.seconds == 0);
  CHECK(found.finalists.front().score <= found.unchanged->score);
}

TEST_CASE("a slot gets the group with which the plan is best even if plans need flushes") {
  // The states of two layers take 32,000 B at 16 B per parameter; the rest of 34,500 B holds some of the 16
  // micro-batches.
  Problem problem = small_problem({4}, 4, 16);
  problem.topology.edit().gpus[0].memory = Bytes(34'500);
  problem.topology.edit().devices[2].speed = 0.5;
  Plan plan = plan_of(problem.job, 2, 1, 16);
  plan.pipelines[0].stages[1].devices = {no_device};
  const auto [job, migration] = make_decided(problem, {1}, one_by_one(4), plan);
  const PlanScore score(Objective::iteration_time, problem.topology, migration, 1e6);
  const auto repaired = repaired_plans(plan, job, {2, 1}, score);
  REQUIRE(repaired.size() == 1);
  CHECK(repaired.front().deficit_bytes <= 0);
  CHECK(repaired.front().plan.execution.flush.has_value());
  CHECK(!devices_of(repaired.front().plan).contains(2));
}
