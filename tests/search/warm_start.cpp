#include "planner/search/warm_start.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <set>

#include "planner/core/index.hpp"
#include "planner/search/iteration_search.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random_problem.hpp"
#include "tests/support/simulated.hpp"
#include "tests/support/unlike_hosts.hpp"

using namespace dtfm;

namespace {

/// Layers of 1 s forward and 2 s backward; messages of 1 s inside a site, 4 s between sites. 1,000 parameters
/// a layer are 12,000 bytes to move: 120 s inside a site, 480 s between sites.
Problem small_problem(const std::vector<int>& per_site, int layers, int micro_batches) {
  Problem problem{
      flat_topology(per_site, link_of(0.01, 100), link_of(0.1, 25)), chain_job(layers, 1000, 100), {}, {}};
  problem.job.training.global_batch = micro_batches;
  problem.job.compression.gradients = 0.001;
  return problem;
}

IterationSearchOptions options_of(long long evaluations = 4'000) {
  IterationSearchOptions options;
  options.common.evaluations = evaluations;
  return options;
}

IterationSearchResult warm_search(const Problem& problem, const Plan& plan, double horizon_s,
                                  IterationSearchOptions options = options_of()) {
  options.warm = WarmStart{plan, problem.job, horizon_s};
  return search_iteration(problem, options);
}

std::set<int> devices_of(const Plan& plan) {
  const auto all = pipeline_major(plan);
  return {all.begin(), all.end()};
}

/// The plan where device `gone` is no longer there and those after it have moved up.
Plan without_device(Plan plan, int gone) {
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages)
      for (int& device : stage.devices)
        device = device == gone ? no_device : device - (device > gone ? 1 : 0);
  return plan;
}

Topology without_device(const Topology& topology, int gone) {
  Topology result = topology;
  result.devices.erase(result.devices.begin() + gone);
  auto& rules = std::get<RuleLinks>(result.links);
  rules.port.erase(rules.port.begin() + gone);
  return result;
}

/// Two pipelines of two stages, each inside a site; device 4 of the first site is not used.
Plan two_pipelines(const Job& job) {
  Plan plan = plan_of(job, 2, 2, 4);
  plan.pipelines[1].stages[0].devices = {3};
  plan.pipelines[1].stages[1].devices = {4};
  return plan;
}

struct Decided {
  std::shared_ptr<DecidedJob> job;
  std::shared_ptr<const MovingCost> moving;
};

/// With these units, going on from `before`.
Decided decided(const Problem& problem, const std::vector<int>& tensors,
                const std::vector<std::vector<int>>& units, const Plan& before) {
  const auto network = std::make_shared<const NetworkCost>(problem.topology, problem.constants);
  Decided result;
  result.job = std::make_shared<DecidedJob>(problem, problem.job, tensors, network);
  result.job->units = units;
  result.moving = std::make_shared<const MovingCost>(problem, network, before, 1);
  return result;
}

std::vector<std::vector<int>> one_by_one(int devices) {
  std::vector<std::vector<int>> units;
  for (int device = 0; device < devices; ++device) units.push_back({device});
  return units;
}

/// Two pipelines of two stages on devices 0 … 3, of which 0 and 3 are gone; others have come.
Plan two_lost(const Job& job) {
  Plan plan = plan_of(job, 2, 2, 4);
  plan.pipelines[0].stages[0].devices = plan.pipelines[1].stages[1].devices = {no_device};
  return plan;
}

/// Hosts of 2, 2, 1 and 1 devices in one site; the first two are stages of two devices.
Problem unlike_hosts() {
  Problem problem = problem_of_hosts({2, 2, 1, 1}, 12);
  problem.job.parallelism.tensor = 2;
  return problem;
}

Plan unlike_plan(const Job& job) {
  Plan plan = plan_of(job, 2, 2, 6);
  plan.tensor = 2;
  plan.pipelines[0].stages[0].devices = {0, 1};
  plan.pipelines[0].stages[1].devices = {2, 3};
  plan.pipelines[1].stages[0].devices = {4};
  plan.pipelines[1].stages[1].devices = {5};
  return plan;
}

}  // namespace

TEST_CASE("seconds are felt as the horizon less the moving leaves them") {
  const Problem problem = small_problem({2}, 4, 4);
  const PlanScore score(Objective::iteration_time, problem.topology, nullptr, 100);
  CHECK(score.of(10, 0, 0) == 10);
  // 80 s of 100 are left for iterations of 10 s: 8 of them, 12.5 s of the horizon each.
  CHECK(score.of(10, 0, 0, {20, 0}) == Approx(12.5));
  // Beyond the horizon nothing is done; less of it is still better.
  CHECK(score.of(1, 0, 0, {100, 0}) > score.of(1e5, 0, 0, {99, 0}));
  CHECK(score.of(1, 0, 0, {101, 0}) > score.of(1, 0, 0, {100, 0}));
  const PlanScore devices(Objective::device_efficiency, problem.topology, nullptr, 100);
  CHECK(devices.of(10, 3, 0, {20, 0}) == Approx(37.5));
}

TEST_CASE("dollars for what is moved are shared by the iterations of the horizon") {
  Problem problem = small_problem({2}, 4, 4);
  for (Device& device : problem.topology.devices) device.price = DollarsPerHour(3600);
  const PlanScore score(Objective::cost_per_token, problem.topology, nullptr, 100);
  // 8 iterations in the 80 s that are left: two devices for 100 s at 1 USD/s, and 40 USD, are 240 USD.
  CHECK(score.of(10, 2, 3, {20, 40}) == Approx(240 / 8.0 + 3));
  CHECK(PlanScore(Objective::iteration_time, {}, nullptr, 100).of(10, 2, 3, {20, 40}) == Approx(12.5));
}

TEST_CASE("a horizon of nothing lets nothing move, and one without end everything") {
  Problem problem = small_problem({2, 2}, 4, 8);
  problem.topology.devices[0].speed = 0.1;
  const PlanScore none(Objective::iteration_time, problem.topology, nullptr, 0);
  CHECK(none.of(10, 0, 0) == 10);
  CHECK(std::isfinite(none.of(10, 0, 0, {2, 0})));
  CHECK(none.of(10, 0, 0, {2, 0}) > none.of(10, 0, 0, {1, 0}));
  CHECK(none.of(1, 0, 0, {1, 0}) > none.of(1e9, 0, 0));
  const Plan slow = plan_of(problem.job, 2, 1, 8);
  CHECK(warm_search(problem, slow, 0).finalists.front().plan == slow);
  const PlanCandidate cold = search_iteration(problem, options_of()).finalists.front();
  for (const double horizon : {1e300, std::numeric_limits<double>::infinity()}) {
    const PlanScore all(Objective::iteration_time, problem.topology, nullptr, horizon);
    CHECK(all.of(10, 0, 0, {1e6, 0}) == 10);
    const PlanCandidate warm = warm_search(problem, slow, horizon).finalists.front();
    CHECK(warm.iteration_s <= 1.01 * cold.iteration_s);
    CHECK(warm.score == warm.iteration_s);
  }
  // Device 0 is lost: what is left goes on, or begins anew, with finite scores.
  Plan lost = plan_of(problem.job, 2, 2, 4);
  lost.pipelines[0].stages[0].devices = {no_device};
  for (const PlanCandidate& it : warm_search(problem, lost, 0).finalists) CHECK(std::isfinite(it.score));
}

TEST_CASE("by price, what moves over a dear link is worth it only for long") {
  // As below, but every device costs the same, and a byte between the sites 1 USD: 6 layers are 72,000 USD.
  // An iteration on the slow site is 24 · 3 · 3 s ÷ 0.5 = 432 s on two devices, at 1 USD/h each 0.24 USD: of
  // the 23,000 in 1e7 s less than 6,000 USD could be saved, of those in 1e10 s up to 6,000,000 USD.
  Problem problem = small_problem({2, 4}, 6, 24);
  problem.topology.devices[0].speed = problem.topology.devices[1].speed = 0.5;
  for (Device& device : problem.topology.devices) device.price = DollarsPerHour(1);
  std::get<RuleLinks>(problem.topology.links).links[1].egress = DollarsPerByte(1);
  const Plan slow = plan_of(problem.job, 2, 1, 24);
  IterationSearchOptions options = options_of();
  options.objective = Objective::cost_per_token;
  const IterationSearchResult brief = warm_search(problem, slow, 1e7, options);
  CHECK(brief.finalists.front().moving.usd == 0);
  CHECK(devices_of(brief.finalists.front().plan).contains(0));
  const PlanCandidate lasting = warm_search(problem, slow, 1e10, options).finalists.front();
  CHECK(lasting.moving.usd >= 72'000);
  CHECK(lasting.score < 0.6 * brief.unchanged->score);
}

TEST_CASE("staying is among the finalists, and never worse") {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 40);
    Problem problem{random_topology(rng, 6, seed % 2 == 1), random_chain_job(rng, 5), {}, {}};
    for (Gpu& gpu : problem.topology.gpus) gpu.memory = Bytes(1e13);
    const Plan before = search_iteration(problem, options_of(300)).finalists.front().plan;
    const Plan poor = search_iteration(problem, options_of(1)).finalists.back().plan;
    for (const Plan& plan : {before, poor})
      for (const double horizon : {1.0, 1e4, 1e9}) {
        CAPTURE(horizon);
        const IterationSearchResult found = warm_search(problem, plan, horizon, options_of(300));
        REQUIRE(found.unchanged.has_value());
        CHECK(found.unchanged->plan == plan);
        CHECK(found.unchanged->moving.seconds == 0);
        CHECK(found.unchanged->score == found.unchanged->iteration_s);
        CHECK(std::any_of(found.finalists.begin(), found.finalists.end(),
                          [&](const PlanCandidate& it) { return it.plan == plan; }));
        const PlanCandidate& best = found.finalists.front();
        CHECK(best.score <= found.unchanged->score);
        if (best.moving.seconds > 0) CHECK(best.moving.seconds < horizon);
      }
  }
}

TEST_CASE("a short horizon lets nothing move, a long one reaches what a cold search finds") {
  // A site of four fast devices stands idle while the plan runs on two at half speed.
  Problem problem = small_problem({2, 4}, 6, 24);
  problem.topology.devices[0].speed = problem.topology.devices[1].speed = 0.5;
  const Plan slow = plan_of(problem.job, 2, 1, 24);
  const PlanCandidate cold = search_iteration(problem, options_of()).finalists.front();

  const IterationSearchResult brief = warm_search(problem, slow, 100);
  CHECK(brief.finalists.front().plan == slow);

  const PlanCandidate lasting = warm_search(problem, slow, 1e9).finalists.front();
  CHECK(lasting.iteration_s <= 1.01 * cold.iteration_s);
  CHECK(lasting.iteration_s < 0.5 * brief.finalists.front().iteration_s);
  CHECK(lasting.moving.seconds > 100);
  CHECK(lasting.score == Approx(lasting.iteration_s * 1e9 / (1e9 - lasting.moving.seconds)));

  // Candidates carry the moving that the closed formula says.
  const auto network = std::make_shared<const NetworkCost>(problem.topology, problem.constants);
  CHECK(lasting.moving.seconds == MovingCost(problem, network, slow, 1).of(lasting.plan, 1).seconds);
}

TEST_CASE("an unused device that fits best takes the place of one that is gone") {
  // Pipelines 0, 1 and 3, 4 in two sites of three and four; 2, 5 and 6 are free, 5 at half speed.
  Problem problem = small_problem({3, 4}, 4, 8);
  problem.topology.devices[5].speed = 0.5;
  const Plan before = two_pipelines(problem.job);
  problem.topology = without_device(problem.topology, 4);  // 5 and 6 are 4 and 5 now
  const Plan plan = without_device(before, 4);
  const std::shared_ptr<const DecidedJob> job = decided(problem, {1}, one_by_one(6), plan).job;
  const PlanScore score(Objective::iteration_time, problem.topology);
  ShapeLimits limits;
  limits.replicas = 2;
  CHECK_FALSE(unchanged_plan(plan, 0, job, limits, score).has_value());
  const auto repaired = repaired_plans(plan, job, limits, score);
  REQUIRE(repaired.size() == 1);
  CHECK(repaired.front().plan.pipelines[1].stages[1].devices == std::vector<int>{5});
  CHECK(devices_of(repaired.front().plan) == std::set<int>{0, 1, 3, 5});

  // Without limits, a third pipeline on the two that are left is offered too.
  CHECK(repaired_plans(plan, job, {}, score).size() == 2);
}

TEST_CASE("a pipeline that cannot be completed is dropped, and its micro-batches dealt out") {
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

  // No horizon is long enough to be worth a move: the other pipeline does it all.
  const PlanCandidate brief = warm_search(problem, without_device(before, 0), 1).finalists.front();
  REQUIRE(brief.plan.pipelines.size() == 1);
  CHECK(brief.plan.pipelines.front().micro_batches == 8);
  CHECK(devices_of(brief.plan) == std::set<int>{1, 2});
  CHECK(brief.moving.seconds == 0);
}

TEST_CASE("all devices gone, the search begins anew") {
  const Problem problem = small_problem({2, 2}, 4, 8);
  Plan gone = plan_of(problem.job, 2, 2, 4);
  for (Pipeline& pipeline : gone.pipelines)
    for (Stage& stage : pipeline.stages) stage.devices = {no_device};
  const PlanCandidate cold = search_iteration(problem, options_of()).finalists.front();
  const PlanCandidate warm = warm_search(problem, gone, 1e6).finalists.front();
  CHECK(warm.moving.seconds == 0);  // all comes from a checkpoint
  CHECK(warm.iteration_s <= 1.01 * cold.iteration_s);
}

TEST_CASE("plans of unequal depth, or for another tensor degree, are gone on from too") {
  const Problem problem = small_problem({3, 2}, 4, 8);
  Plan uneven{1, "gpipe", "sharded-ps", {}};
  uneven.pipelines = {{4, {{{0, 1}, {0}}, {{1, 2}, {1}}, {{2, 4}, {2}}}},
                      {4, {{{0, 2}, {3}}, {{2, 4}, {4}}}}};
  const IterationSearchResult found = warm_search(problem, uneven, 1);
  REQUIRE(found.unchanged.has_value());
  CHECK(found.finalists.front().plan == uneven);

  Plan wide{2, "gpipe", "sharded-ps", {}};
  wide.pipelines = {{8, {{{0, 4}, {0, 1}}}}};
  const IterationSearchResult other = warm_search(problem, wide, 1e7);
  CHECK_FALSE(other.unchanged.has_value());
  CHECK(!other.finalists.empty());
}

TEST_CASE("a warm search gives the same plans for any number of threads") {
  Problem problem = small_problem({3, 3}, 6, 12);
  const Plan before = two_pipelines(problem.job);
  std::get<RuleLinks>(problem.topology.links).links[1].bandwidth = BitsPerSecond(8 * 12);
  IterationSearchOptions options = options_of();
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
      CHECK(many.finalists[i].moving.seconds == one.finalists[i].moving.seconds);
    }
  }
}

TEST_CASE("a site behind a link that has become slow is left out") {
  // Three sites with a pipeline each; to and from the third, messages take 100 times as long as before.
  Problem problem = small_problem({2, 2, 2}, 4, 12);
  problem.job.compression.gradients = 1;
  const Plan plan = plan_of(problem.job, 2, 3, 4);
  auto& rules = std::get<RuleLinks>(problem.topology.links);
  rules.links.push_back(link_of(0.1, 0.25));
  for (int site = 0; site < 2; ++site) rules.table.own()(site, 2) = rules.table.own()(2, site) = 2;
  const auto [job, moving] = decided(problem, {1}, one_by_one(6), plan);
  const PlanScore score(Objective::iteration_time, problem.topology, moving, 1e4);
  const auto repaired = repaired_plans(plan, job, {}, score);
  CHECK(!devices_of(repaired.front().plan).contains(4));
  CHECK(!devices_of(repaired.front().plan).contains(5));
  CHECK(repaired.front().score < 0.1 * unchanged_plan(plan, 0, job, {}, score)->score);
}

TEST_CASE("of equally good plans, the one in which most devices stay where they are") {
  // Three alike pipelines in one site; pipeline 2 gets three new devices, and all others change places.
  Problem problem = small_problem({9}, 6, 12);
  const Plan before = plan_of(problem.job, 3, 2, 6);  // devices 0 … 5
  Plan after = plan_of(problem.job, 3, 3, 4);
  const int order[] = {5, 0, 4, 7, 3, 6, 2, 8, 1};
  for (int i = 0; i < 9; ++i) after.pipelines[at(i / 3)].stages[at(i % 3)].devices = {order[i]};
  const auto [job, cost] = decided(problem, {1}, one_by_one(9), before);
  const PlanScore score(Objective::iteration_time, problem.topology, cost, 1e5);
  const PlanCandidate shuffled = priced_plan(job, after, 0, score);
  const PlanCandidate settled = settled_plan(shuffled, score);
  // Every one of the six has its old layers; 6, 7 and 8 get two layers of 12,000 bytes each.
  CHECK(cost->of(settled.plan, 1).bytes == 3 * 24'000);
  CHECK(cost->of(after, 1).bytes > 3 * 24'000);
  CHECK(settled.score <= shuffled.score * (1 + 1e-9));
  CHECK(settled.iteration_s == Approx(shuffled.iteration_s));
}

TEST_CASE("a repair counts its prices, and stops when it is told to") {
  const Problem problem = small_problem({9}, 4, 8);
  const Plan plan = two_lost(problem.job);
  const auto [job, moving] = decided(problem, {1}, one_by_one(9), plan);
  const PlanScore score(Objective::iteration_time, problem.topology, moving, 1e6);
  // Two seats, seven units for them: the plan as it is filled first; for each seat the five units that are
  // left; then the repaired plan, and those with one and with two pipelines more. To fit a plan, it is priced
  // as it is, with its layers cut again, and with its micro-batches dealt again.
  constexpr int fit = 3;
  repaired_plans(plan, job, {}, score);
  CHECK(score.priced() == 1 + 2 * 5 + fit + 2 * fit);

  for (const int most : {0, 3, 7}) {
    CAPTURE(most);
    int asked = 0;
    const PlanScore own = score.with_own_count();
    const auto stopped = repaired_plans(plan, job, {}, own, [&] { return asked++ >= most; });
    CHECK(own.priced() == 1 + most + fit);
    REQUIRE(stopped.size() == 1);
    const std::set<int> used = devices_of(stopped.front().plan);
    CHECK((used.size() == 4 && used.contains(1) && used.contains(2) && !used.contains(no_device)));
  }
}

TEST_CASE("an interrupt ends the repair, and leaves a whole plan") {
  const Problem problem = small_problem({9}, 4, 8);
  const Plan plan = two_lost(problem.job);
  const std::atomic<bool> interrupted = true;
  IterationSearchOptions options = options_of();
  options.common.interrupted = &interrupted;
  const IterationSearchResult found = warm_search(problem, plan, 1e6, options);
  CHECK(found.stopped == Stopped::interrupted);
  CHECK(found.evaluations == 1 + 3 + 1);  // the plan as it is filled, fitted, and not settled
  const std::set<int> used = devices_of(found.finalists.front().plan);
  CHECK((used.size() == 4 && !used.contains(no_device)));
}

TEST_CASE("settling stops when it is told to") {
  const Problem problem = small_problem({4}, 4, 8);
  const Plan before = plan_of(problem.job, 2, 2, 4);
  Plan after = before;
  std::swap(after.pipelines[0].stages[0].devices, after.pipelines[0].stages[1].devices);
  const auto [job, moving] = decided(problem, {1}, one_by_one(4), before);
  const PlanScore score(Objective::iteration_time, problem.topology, moving, 1e6);
  const PlanCandidate candidate = priced_plan(job, after, 0, score);
  const PlanScore own = score.with_own_count();
  CHECK(settled_plan(candidate, own, [] { return true; }).plan == after);
  CHECK(own.priced() == 1);  // of what comes out
  CHECK(settled_plan(candidate, own).moving.seconds == 0);
  CHECK(own.priced() == 1 + 2);  // one exchange brings both home
}

TEST_CASE("of a stage that has lost a device, what is left goes on as a narrower one") {
  Problem problem = unlike_hosts();
  Plan plan = unlike_plan(problem.job);
  problem.topology = without_device(problem.topology, 3);  // 4 and 5 are 3 and 4 now
  plan = without_device(plan, 3);
  const auto [job, moving] = decided(problem, {1, 2}, {{0, 1}, {2}, {3}, {4}}, plan);
  const PlanScore score(Objective::iteration_time, problem.topology, moving, 1e6);
  const auto repaired = repaired_plans(plan, job, {2, 2}, score);
  REQUIRE(repaired.size() == 1);
  const Plan& narrower = repaired.front().plan;
  CHECK(narrower.tensor == 2);
  CHECK(narrower.pipelines[0].stages[0].devices == std::vector{0, 1});
  CHECK(narrower.pipelines[0].stages[1].devices == std::vector{2});
  CHECK(narrower.pipelines[1].stages[0].devices == std::vector{3});
  CHECK(narrower.pipelines[1].stages[1].devices == std::vector{4});

  // The search goes on from there, and no worse.
  const IterationSearchResult found = warm_search(problem, plan, 1e6);
  CHECK_FALSE(found.unchanged.has_value());
  CHECK(found.finalists.front().score <= repaired.front().score * (1 + 1e-9));
}

TEST_CASE("plans of unlike degrees that can stay do, and their stages go home") {
  const Problem problem = unlike_hosts();
  const Plan before = unlike_plan(problem.job);
  const auto [job, moving] = decided(problem, {1, 2}, {{0, 1}, {2, 3}, {4}, {5}}, before);
  const PlanScore score(Objective::iteration_time, problem.topology, moving, 1e6);
  CHECK(unchanged_plan(before, 0, job, {}, score).value().moving.seconds == 0);
  CHECK(stands_on_units(before, *job));
  Plan after = before;
  for (Pipeline& pipeline : after.pipelines)
    std::swap(pipeline.stages[0].devices, pipeline.stages[1].devices);
  const PlanCandidate candidate = priced_plan(job, after, 0, score);
  CHECK(candidate.moving.seconds > 0);
  CHECK(settled_plan(candidate, score).moving.seconds == 0);

  const IterationSearchResult found = warm_search(problem, before, 1e-6);
  REQUIRE(found.unchanged.has_value());
  CHECK(found.finalists.front().moving.seconds == 0);
  CHECK(found.finalists.front().score <= found.unchanged->score);
}
