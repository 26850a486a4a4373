#include "planner/search/iteration_time/warm_start.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "tests/support/catch.hpp"
#include "tests/support/random_problem.hpp"
#include "tests/support/warm_start_problems.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::search;

TEST_CASE("an iteration is weighted by the share of the horizon that migration leaves") {
  const Problem problem = small_problem({2}, 4, 4);
  const PlanScore score(Objective::iteration_time, problem.topology, nullptr, 100);
  CHECK(score.of(10, 0, 0) == 10);
  // 80 s of 100 are left for iterations of 10 s: 8 iterations, each of which takes 12.5 s of the horizon.
  CHECK(score.of(10, 0, 0, {20, 0}) == Approx(12.5));
  // If migration exceeds the horizon, no iteration is completed; less migration is still better.
  CHECK(score.of(1, 0, 0, {100, 0}) > score.of(1e5, 0, 0, {99, 0}));
  CHECK(score.of(1, 0, 0, {101, 0}) > score.of(1, 0, 0, {100, 0}));
  const PlanScore devices(Objective::device_efficiency, problem.topology, nullptr, 100);
  CHECK(devices.of(10, 3, 0, {20, 0}) == Approx(37.5));
}

TEST_CASE("egress of a migration is shared by the iterations of the horizon") {
  Problem problem = small_problem({2}, 4, 4);
  for (Device& device : problem.topology.edit().devices) device.price = DollarsPerHour(3600);
  const PlanScore score(Objective::cost_per_token, problem.topology, nullptr, 100);
  // 8 iterations in the 80 s that are left: two devices for 100 s at 1 USD/s plus 40 USD are 240 USD.
  CHECK(score.of(10, 2, 3, {20, 40}) == Approx(240 / 8.0 + 3));
  CHECK(PlanScore(Objective::iteration_time, {}, nullptr, 100).of(10, 2, 3, {20, 40}) == Approx(12.5));
}

TEST_CASE("a horizon of zero permits no migration and an unlimited one permits any") {
  Problem problem = small_problem({2, 2}, 4, 8);
  problem.topology.edit().devices[0].speed = 0.1;
  const PlanScore none(Objective::iteration_time, problem.topology, nullptr, 0);
  CHECK(none.of(10, 0, 0) == 10);
  CHECK(std::isfinite(none.of(10, 0, 0, {2, 0})));
  CHECK(none.of(10, 0, 0, {2, 0}) > none.of(10, 0, 0, {1, 0}));
  CHECK(none.of(1, 0, 0, {1, 0}) > none.of(1e9, 0, 0));
  const Plan slow = plan_of(problem.job, 2, 1, 8);
  CHECK(warm_search(problem, slow, 0).finalists.front().plan == slow);
  const PlanCandidate cold = search_iteration(problem, search_options()).finalists.front();
  for (const double horizon : {1e300, std::numeric_limits<double>::infinity()}) {
    const PlanScore all(Objective::iteration_time, problem.topology, nullptr, horizon);
    CHECK(all.of(10, 0, 0, {1e6, 0}) == 10);
    const PlanCandidate warm = warm_search(problem, slow, horizon).finalists.front();
    CHECK(warm.iteration_s <= 1.01 * cold.iteration_s);
    CHECK(warm.score == warm.iteration_s);
  }
  // Device 0 has failed: the remaining plan continues, or the search starts over, with finite scores.
  Plan lost = plan_of(problem.job, 2, 2, 4);
  lost.pipelines[0].stages[0].devices = {no_device};
  for (const PlanCandidate& it : warm_search(problem, lost, 0).finalists) CHECK(std::isfinite(it.score));
}

TEST_CASE("if the objective is cost migration over an expensive link pays off only over a long horizon") {
  // As below, but every device costs the same and a byte between the sites 1 USD: 6 layers cost 72,000 USD.
  // An iteration at the slow site is 24 · 3 · 3 s ÷ 0.5 = 432 s on two devices, 0.24 USD at 1 USD/h each. Of
  // the 23,000 iterations in 1e7 s less than 6,000 USD could be saved, of those in 1e10 s up to 6,000,000
  // USD.
  Problem problem = small_problem({2, 4}, 6, 24);
  problem.topology.edit().devices[0].speed = problem.topology.edit().devices[1].speed = 0.5;
  for (Device& device : problem.topology.edit().devices) device.price = DollarsPerHour(1);
  std::get<RuleLinks>(problem.topology.edit().links).links[1].egress = DollarsPerByte(1);
  const Plan slow = plan_of(problem.job, 2, 1, 24);
  IterationSearchOptions options = search_options();
  options.objective = Objective::cost_per_token;
  const IterationSearchResult brief = warm_search(problem, slow, 1e7, options);
  CHECK(brief.finalists.front().migration.usd == 0);
  CHECK(devices_of(brief.finalists.front().plan).contains(0));
  const PlanCandidate lasting = warm_search(problem, slow, 1e10, options).finalists.front();
  CHECK(lasting.migration.usd >= 72'000);
  CHECK(lasting.score < 0.6 * brief.unchanged->score);
}

TEST_CASE("keeping the plan is among the finalists and never worse") {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 40);
    Problem problem{random_topology(rng, 6, seed % 2 == 1), random_chain_job(rng, 5), {}, {}};
    for (Gpu& gpu : problem.topology.edit().gpus) gpu.memory = Bytes(1e13);
    const Plan before = search_iteration(problem, search_options(300)).finalists.front().plan;
    const Plan poor = search_iteration(problem, search_options(1)).finalists.back().plan;
    for (const Plan& plan : {before, poor})
      for (const double horizon : {1.0, 1e4, 1e9}) {
        CAPTURE(horizon);
        const IterationSearchResult found = warm_search(problem, plan, horizon, search_options(300));
        REQUIRE(found.unchanged.has_value());
        CHECK(found.unchanged->plan == plan);
        CHECK(found.unchanged->migration.seconds == 0);
        CHECK(found.unchanged->score == found.unchanged->iteration_s);
        CHECK(std::any_of(found.finalists.begin(), found.finalists.end(),
                          [&](const PlanCandidate& it) { return it.plan == plan; }));
        const PlanCandidate& best = found.finalists.front();
        CHECK(best.score <= found.unchanged->score);
        if (best.migration.seconds > 0) CHECK(best.migration.seconds < horizon);
      }
  }
}

TEST_CASE("a short horizon permits no migration and a long one reaches the result of a cold search") {
  // A site of four fast devices is idle while the plan runs on two at half speed.
  Problem problem = small_problem({2, 4}, 6, 24);
  problem.topology.edit().devices[0].speed = problem.topology.edit().devices[1].speed = 0.5;
  const Plan slow = plan_of(problem.job, 2, 1, 24);
  const PlanCandidate cold = search_iteration(problem, search_options()).finalists.front();

  const IterationSearchResult brief = warm_search(problem, slow, 100);
  CHECK(brief.finalists.front().plan == slow);

  const PlanCandidate lasting = warm_search(problem, slow, 1e9).finalists.front();
  CHECK(lasting.iteration_s <= 1.01 * cold.iteration_s);
  CHECK(lasting.iteration_s < 0.5 * brief.finalists.front().iteration_s);
  CHECK(lasting.migration.seconds > 100);
  CHECK(lasting.score == Approx(lasting.iteration_s * 1e9 / (1e9 - lasting.migration.seconds)));

  // Candidates have the migration of the closed formula.
  const auto network = std::make_shared<const NetworkCost>(problem.topology, problem.constants);
  CHECK(lasting.migration.seconds == MigrationCost(problem, network, slow, 1).of(lasting.plan, 1).seconds);
}

TEST_CASE("if all devices have failed the search starts over") {
  const Problem problem = small_problem({2, 2}, 4, 8);
  Plan gone = plan_of(problem.job, 2, 2, 4);
  for (Pipeline& pipeline : gone.pipelines)
    for (Stage& stage : pipeline.stages) stage.devices = {no_device};
  const PlanCandidate cold = search_iteration(problem, search_options()).finalists.front();
  const PlanCandidate warm = warm_search(problem, gone, 1e6).finalists.front();
  CHECK(warm.migration.seconds == 0);  // everything comes from a checkpoint
  CHECK(warm.iteration_s <= 1.01 * cold.iteration_s);
}

TEST_CASE("plans of unequal depth or another tensor degree can be warm-started as well") {
  const Problem problem = small_problem({3, 2}, 4, 8);
  Plan uneven{1, problem.job.execution, {}};
  uneven.pipelines = {{4, {{{0, 1}, {0}}, {{1, 2}, {1}}, {{2, 4}, {2}}}},
                      {4, {{{0, 2}, {3}}, {{2, 4}, {4}}}}};
  const IterationSearchResult found = warm_search(problem, uneven, 1);
  REQUIRE(found.unchanged.has_value());
  CHECK(found.finalists.front().plan == uneven);

  Plan wide{2, problem.job.execution, {}};
  wide.pipelines = {{8, {{{0, 4}, {0, 1}}}}};
  const IterationSearchResult other = warm_search(problem, wide, 1e7);
  CHECK_FALSE(other.unchanged.has_value());
  CHECK(!other.finalists.empty());
}

TEST_CASE("a plan with uneven virtual stages is kept as it is, and replaced by one with even ones") {
  Problem problem = small_problem({2}, 4, 4);
  problem.job.execution.schedule = Schedule::interleaved;
  problem.job.execution.chunks = 2;
  const Plan even = plan_of(problem.job, 2, 1, 4);
  Plan uneven = even;
  uneven.pipelines[0].stages[0].virtual_layers = {2, 0};  // layers 0 and 1 rather than 0 and 2
  const IterationSearchResult brief = warm_search(problem, uneven, 1e-6);
  REQUIRE(brief.unchanged.has_value());
  CHECK(brief.unchanged->plan == uneven);
  CHECK(brief.unchanged->migration.seconds == 0);
  CHECK(brief.finalists.front().plan == uneven);
  const PlanCandidate lasting = warm_search(problem, uneven, 1e9).finalists.front();
  CHECK(lasting.iteration_s < brief.unchanged->iteration_s);
  CHECK(lasting.migration.seconds > 0);
  for (const Stage& stage : lasting.plan.pipelines[0].stages) CHECK(stage.virtual_layers.empty());
  // A job with other chunks splits the layers anew.
  problem.job.execution.schedule = Schedule::one_f_one_b;
  problem.job.execution.chunks.reset();
  const IterationSearchResult other = warm_search(problem, uneven, 1e9);
  for (const PlanCandidate& it : other.finalists)
    for (const Stage& stage : it.plan.pipelines[0].stages) CHECK(stage.virtual_layers.empty());
}

TEST_CASE(
    "a running plan whose schedule the messages cannot run is replaced by one whose schedule they can") {
  Problem problem = small_problem({2}, 4, 4);
  Job running = problem.job;
  running.execution.schedule = Schedule::interleaved;
  running.execution.chunks = 2;
  problem.job.execution.messaging = Messaging::deepspeed;
  problem.job.automatic = {Setting::schedule};
  IterationSearchOptions options = search_options();
  options.warm = WarmStart{plan_of(running, 2, 1, 4), running, 1e6};
  const IterationSearchResult found = search_iteration(problem, options);
  REQUIRE(!found.finalists.empty());
  for (const PlanCandidate& it : found.finalists) {
    CHECK(can_run(Messaging::deepspeed, it.plan.execution.schedule));
    CHECK(it.plan.execution.messaging == Messaging::deepspeed);
  }
}

TEST_CASE("a warm search gives the same plans for any number of threads") {
  Problem problem = small_problem({3, 3}, 6, 12);
  const Plan before = two_pipelines(problem.job);
  std::get<RuleLinks>(problem.topology.edit().links).links[1].bandwidth = BitsPerSecond(8 * 12);
  IterationSearchOptions options = search_options();
  options.common.threads = 1;
  const IterationSearchResult one = warm_search(problem, before, 1e5, options);
  for (const int threads : {2, 3, 8}) {
    options.common.threads = threads;
    const IterationSearchResult many = warm_search(problem, before, 1e5, options);
    REQUIRE(many.finalists.size() == one.finalists.size());
    CHECK(many.evaluations == one.evaluations);
    for (std::size_t i = 0; i < one.finalists.size(); ++i) {
      CHECK(many.finalists[i].plan == one.finalists[i].plan);
      CHECK(many.finalists[i].score == one.finalists[i].score);
      CHECK(many.finalists[i].migration.seconds == one.finalists[i].migration.seconds);
    }
  }
}

TEST_CASE("an interrupt ends the repair and leaves a complete plan") {
  const Problem problem = small_problem({9}, 4, 8);
  const Plan plan = plan_missing_two_devices(problem.job);
  IterationSearchOptions options = search_options();
  options.common.stop = [] { return true; };
  const IterationSearchResult found = warm_search(problem, plan, 1e6, options);
  CHECK(found.stopped == Stopped::interrupted);
  CHECK(found.evaluations == 1 + 3 + 1);  // the plan is filled and fitted, but its migration is not minimized
  const std::set<int> used = devices_of(found.finalists.front().plan);
  CHECK((used.size() == 4 && !used.contains(no_device)));
}

TEST_CASE("the budget includes repairs and minimizing migration") {
  const Problem problem = small_problem({9}, 4, 8);
  for (const long long most : {1, 20, 60, 500}) {
    CAPTURE(most);
    const IterationSearchResult found =
        warm_search(problem, plan_missing_two_devices(problem.job), 1e6, search_options(most));
    CHECK(found.evaluations <= most + 4);  // beyond the budget, a plan is always filled and fitted
    CHECK(warm_search(problem, two_pipelines(problem.job), 1e6, search_options(most)).evaluations <= most);
  }
}
