#include <atomic>
#include <cmath>

#include "planner/api/api.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;

namespace {

/// Returns two sites of three devices each, and a chain of four layers with eight micro-batches.
Problem small_problem() {
  Problem problem{flat_topology({3, 3}, link_of(1e-4, 1e9), link_of(0.05, 1e8)), chain_job(4, 1e7, 1e7),
                  Calibration{1, 0, 1, 0}};
  problem.job.training.global_batch = 8;
  return problem;
}

api::PlanRequest plan_request(long long evaluations = 2000) {
  api::PlanRequest request{small_problem()};
  request.options.common.evaluations = evaluations;
  return request;
}

/// Returns a scenario in which the durations of tasks are random.
sim::Scenario random_scenario() {
  sim::Scenario scenario;
  scenario.name = "jitter";
  scenario.compute_jitter.cv = 0.1;
  return scenario;
}

}  // namespace

TEST_CASE("plan simulates the finalists and returns the fastest first") {
  const api::FoundPlans result = api::find_plans(plan_request());
  CHECK(result.simulation == api::SimulationStatus::done);
  CHECK(result.fits());
  CHECK(result.completes_iteration());
  REQUIRE(result.finalist_results.size() == result.plans.size());
  for (std::size_t i = 1; i < result.plans.size(); ++i)
    CHECK(result.finalist_results[i - 1].seconds <= result.finalist_results[i].seconds);
  REQUIRE(result.finalist_results.front().simulated.size() == 1);
  CHECK(result.finalist_results.front().simulated.front().scenario == "nominal");
}

TEST_CASE("after the time limit, plan simulates only the best finalist") {
  api::PlanRequest request = plan_request();
  request.options.common.evaluations.reset();
  request.options.common.time_limit = 1e-9;
  for (int device = 0; device < 6; ++device)  // so that the plans of the first shape differ
    request.problem.topology.edit().devices[static_cast<std::size_t>(device)].speed = 1 + 0.1 * device;
  const api::FoundPlans result = api::find_plans(request);
  CHECK(result.simulation == api::SimulationStatus::done);
  CHECK(result.found.finalists.size() > 1);
  REQUIRE(result.plans.size() == 1);
  REQUIRE(result.finalist_results.size() == 1);
  CHECK(std::isfinite(result.finalist_results.front().seconds));
}

TEST_CASE("plan reports its progress") {
  api::PlanRequest request = plan_request();
  long long calls = 0;
  request.options.common.on_progress = [&](const Progress& progress) {
    ++calls;
    CHECK(progress.evaluations > 0);
    CHECK(progress.best > 0);
  };
  api::find_plans(request);
  CHECK(calls > 0);
}

TEST_CASE("a cancelled plan request returns the best plan so far") {
  for (const bool from_the_start : {true, false}) {
    CAPTURE(from_the_start);
    api::PlanRequest request = plan_request(1'000'000'000);
    std::atomic<bool> cancelled = from_the_start;
    request.options.common.on_progress = [&](const Progress&) { cancelled = true; };
    request.options.common.stop = [&] { return cancelled.load(); };
    const api::FoundPlans result = api::find_plans(request);
    CHECK(result.stopped() == search::Stopped::interrupted);
    CHECK(result.simulation == api::SimulationStatus::interrupted);
    CHECK(result.finalist_results.empty());
    CHECK(result.fits());
    CHECK(std::isfinite(result.best().iteration_s));
  }
}

TEST_CASE("finalists whose simulation is stopped have no times") {
  const api::FoundPlans planned = api::find_plans(plan_request());
  const std::vector<search::PlanCandidate> plans(4, planned.best());
  int asked = 0;
  const auto results = api::simulate_finalists(plans, {api::nominal_scenario()}, api::RobustCriterion::mean,
                                               {1, nullptr, [&] { return ++asked > 4; }});
  REQUIRE(results.size() == 4);
  CHECK_FALSE(results.front().was_stopped);
  CHECK(results.front().seconds == planned.finalist_results.front().seconds);
  CHECK(results.back().was_stopped);
  CHECK(std::isinf(results.back().seconds));
  CHECK(results.back().error.empty());
}

TEST_CASE("fewer simulations run at once if they would take too much memory together") {
  const Problem problem = small_problem();
  const auto threads = [&](int micro_batches, bool are_nominal) {
    Job job = problem.job;
    job.training.global_batch = 2 * micro_batches;
    const Problem large{problem.topology, job, problem.constants, problem.roofline};
    const auto decided = std::make_shared<const search::DecidedJob>(
        large, job, std::vector{1},
        std::make_shared<const cost::NetworkCost>(large.topology, large.constants));
    search::PlanCandidate candidate{decided, plan_of(job, 1, 2, micro_batches)};
    return api::affordable_workers(8, {candidate}, are_nominal).threads;
  };
  CHECK(threads(4, true) == 8);
  CHECK(threads(1'000'000, true) < 8);  // 2 × 2 million computations of some 450 bytes
  CHECK(threads(4'000'000, false) == 1);
  // A scenario may delay some devices, so that all pipelines are simulated.
  CHECK(threads(1'000'000, false) <= threads(1'000'000, true));
}

// With zero2, 2 devices have 4 passes each through 3 layers for 2 micro-batches, and send one message each
// per layer and micro-batch and in the all-gather.
TEST_CASE("finalists that would take too long to simulate together are left out, but never the first") {
  const Problem problem{flat_topology({2}, link_of(1e-3, 1e8), link_of(0.02, 2e7)), chain_job(3, 1e6, 1e6),
                        Calibration{1, 0, 1, 0}};
  const auto candidate_of = [&](OptimizerSharding sharding) {
    Job job = problem.job;
    job.training.global_batch = 4;
    job.execution.optimizer_sharding = sharding;
    const Problem own{problem.topology, job, problem.constants, problem.roofline};
    const auto decided = std::make_shared<const search::DecidedJob>(
        own, job, std::vector{1}, std::make_shared<const cost::NetworkCost>(own.topology, own.constants));
    return search::PlanCandidate{decided, plan_of(job, 1, 2, 2)};
  };
  const search::PlanCandidate large = candidate_of(OptimizerSharding::zero2),
                              small = candidate_of(OptimizerSharding::none);
  CHECK(sim::tasks_of(small.job->problem, small.plan) == 2 * 4);
  CHECK(sim::tasks_of(large.job->problem, large.plan) == 2 * 4 * 3 + 2 * (2 * 3 + 1));
  const auto sizes = [&](double max_tasks) {
    std::vector<double> result;
    for (const search::PlanCandidate& it :
         api::affordable_candidates({large, small, large, small}, max_tasks))
      result.push_back(sim::tasks_of(it.job->problem, it.plan));
    return result;
  };
  CHECK(sizes(1) == std::vector<double>{38});
  CHECK(sizes(38 + 16) == std::vector<double>{38, 8, 8});
  CHECK(sizes(1000).size() == 4);
}

TEST_CASE("plans that exceed the memory are not simulated") {
  api::PlanRequest request = plan_request();
  request.problem.topology.edit().gpus.front().memory = Bytes(1e3);
  const api::FoundPlans result = api::find_plans(request);
  CHECK(result.simulation == api::SimulationStatus::out_of_memory);
  CHECK_FALSE(result.fits());
  CHECK(result.finalist_results.empty());
}

TEST_CASE("score gives a planned plan the estimate and the simulated time that the search found") {
  const api::PlanRequest request = plan_request();
  const api::FoundPlans planned = api::find_plans(request);
  const search::PlanCandidate& best = planned.best();
  const api::PlanAnswer scored = api::score({api::simulated_problem(best)}, {best.plan});
  CHECK(scored.simulation == api::SimulationStatus::done);
  CHECK(scored.is_feasible());
  CHECK(scored.estimate.value().iteration_s == Approx(best.iteration_s).epsilon(1e-12));
  CHECK(scored.seconds == planned.finalist_results.front().seconds);
}

TEST_CASE("a score advises the plan that a search finds") {
  api::PlanRequest request = plan_request();
  request.advises = true;
  const Plan given = plan_of(request.problem.job, 1, 1, 8);
  const api::PlanAnswer scored = api::score(request, {given});
  const api::FoundPlans found = api::find_plans(request);
  REQUIRE(scored.advice);
  CHECK(scored.advice->plan.candidate.plan == found.best().plan);
  const double best_s = found.finalist_results.front().seconds;
  CHECK(scored.advice->gain.value() == Approx(1 - best_s / scored.seconds.value()).epsilon(1e-12));
}

TEST_CASE("an interrupted search advises its best plan so far by its estimate") {
  api::PlanRequest request = plan_request();
  request.advises = true;
  bool is_searching = false;
  request.options.common.on_progress = [&](const Progress&) { is_searching = true; };
  request.options.common.stop = [&] { return is_searching; };
  const Plan given = plan_of(request.problem.job, 1, 1, 8);
  const api::PlanAnswer scored = api::score(request, {given});
  CHECK(scored.simulation == api::SimulationStatus::done);
  CHECK(scored.unfinished.advice);
  REQUIRE(scored.advice);
  CHECK(scored.advice->plan.simulated.empty());
  CHECK(scored.advice->gain.value() == Approx(1 - scored.advice->plan.candidate.iteration_s /
                                                      scored.finalists.front().candidate.iteration_s));
}

TEST_CASE("an answer has what the search found, and what is known about the best plan") {
  api::PlanRequest request = plan_request();
  request.explains = true;
  const api::PlanAnswer answer = api::plan(request);
  const api::FoundPlans found = api::find_plans(request);
  CHECK(answer.plan == found.best().plan);
  CHECK(answer.finalists.size() == found.plans.size());
  CHECK(answer.seconds == found.finalist_results.front().seconds);
  CHECK(answer.search.value().evaluations == found.found.evaluations);
  CHECK(answer.lower_bound.value().value <= answer.lower_bound->cost);
  CHECK(answer.explanation.value().now.iteration_s == Approx(answer.estimate.value().iteration_s));
  CHECK_FALSE(answer.targets.empty());
}

TEST_CASE("an answer to a warm start compares the plan with the running one") {
  api::PlanRequest request = plan_request(500);
  request.options.warm = search::WarmStart{plan_of(request.problem.job, 2, 2, 4), request.problem.job, 3600};
  request.running_plan = "running.json";
  const api::PlanAnswer answer = api::plan(request);
  REQUIRE(answer.warm_start);
  CHECK(answer.warm_start->plan == "running.json");
  CHECK(answer.warm_start->horizon_s == 3600);
  const api::WarmStartResult& result = answer.warm_start->result;
  CHECK(result.devices == 4);
  CHECK(result.obstacle == api::ContinuationObstacle::none);
  const api::PlanAnswer unchanged = api::score({request.problem}, {request.options.warm->plan});
  CHECK(result.unchanged_iteration_s.value() == unchanged.seconds.value());
  CHECK(result.gain.value().unchanged == *result.unchanged_iteration_s);
  CHECK(result.gain->value == Approx(*result.unchanged_iteration_s - answer.seconds.value()));
  CHECK(result.keeps_plan == (answer.plan == request.options.warm->plan));
  CHECK(result.migration.devices.empty() ==
        (result.migration.bytes + result.migration.checkpoint_bytes == 0));
  if (result.keeps_plan) CHECK(result.migration.devices.empty());
}

TEST_CASE("an answer with a Pareto front has the simulated times of its candidates") {
  api::PlanRequest request = plan_request(200);
  request.options.keeps_pareto_front = true;
  const api::PlanAnswer answer = api::plan(request);
  REQUIRE(answer.front);
  REQUIRE(answer.front->results.size() == answer.front->search.candidates.size());
  for (const api::FinalistResult& it : answer.front->results) {
    CHECK_FALSE(it.was_stopped);
    CHECK(it.error.empty());
    REQUIRE(it.simulated.size() == 1);
    CHECK(it.simulated.front().mean_s > 0);
    CHECK(std::isfinite(it.seconds));
    CHECK(it.seconds == it.simulated.front().mean_s);
  }
  CHECK_FALSE(api::pareto_points(*answer.front).empty());
}

TEST_CASE("a given plan that the simulator rejects is not feasible") {
  api::PlanRequest request = plan_request();
  ExecutionConfig& execution = request.problem.job.execution;
  execution.gradient_sync = GradientSync::ring;
  execution.optimizer_sharding = OptimizerSharding::zero1;
  sim::Scenario departure;
  departure.events = {{1, 0, sim::DeviceEvent::Kind::leave}};
  request.scenarios.push_back({"departure", departure});
  const api::PlanAnswer scored = api::score(request, {plan_of(request.problem.job, 2, 2, 4)});
  CHECK(scored.simulation == api::SimulationStatus::failed);
  CHECK_THAT(scored.simulation_error, contains("device failures are not supported with zero1"));
  CHECK(scored.fits());
  CHECK_FALSE(scored.seconds);
  CHECK_FALSE(scored.is_feasible());
}

TEST_CASE("a cancelled score has the estimate but no simulated time") {
  const Problem problem = small_problem();
  api::PlanRequest request{problem};
  request.options.common.stop = [] { return true; };
  const api::PlanAnswer scored = api::score(request, {plan_of(problem.job, 2, 2, 4)});
  CHECK(scored.simulation == api::SimulationStatus::interrupted);
  CHECK(scored.estimate.value().iteration_s > 0);
  CHECK(scored.simulated().empty());
  CHECK_FALSE(scored.seconds);
}

TEST_CASE("simulate agrees with the simulated times of the planner") {
  const api::FoundPlans planned = api::find_plans(plan_request());
  api::SimulateRequest request{api::simulated_problem(planned.best()), planned.best().plan};
  request.iterations = 1;
  const api::SimulateResult result = api::simulate(request);
  CHECK(result.report.iteration_time_s.mean == planned.finalist_results.front().simulated.front().mean_s);
  CHECK(result.tasks > 0);
  CHECK_FALSE(result.samples);
}

TEST_CASE("simulate and score choose the same warm-ups for a plan that has none") {
  Problem problem = small_problem();
  problem.job.execution.schedule = Schedule::eager_one_f_one_b;
  const Plan plan = plan_of(problem.job, 2, 2, 4);
  api::SimulateRequest request{problem, plan};
  request.iterations = 1;
  const api::SimulateResult simulated = api::simulate(request);
  const api::PlanAnswer scored = api::score({problem}, {plan});
  CHECK(simulated.plan == scored.plan);
  CHECK(simulated.plan.pipelines.front().stages.front().warm_up.has_value());
  CHECK(simulated.report.iteration_time_s.mean == scored.seconds);
  request.plan = scored.plan;
  CHECK(api::simulate(request).plan == scored.plan);
}

TEST_CASE("simulate reports its progress, and cancellation returns the iterations so far") {
  const Problem problem = small_problem();
  api::SimulateRequest request{problem, plan_of(problem.job, 2, 2, 4)};
  request.iterations = 50;
  std::atomic<bool> cancelled = false;
  double share = 0;
  request.work.on_progress = [&](const Progress& progress) {
    CHECK(progress.share > share);
    share = progress.share;
    cancelled = progress.iteration >= 2;
  };
  request.work.stop = [&] { return cancelled.load(); };
  const api::SimulateResult result = api::simulate(request);
  CHECK(share > 0);
  CHECK(share < 1);
  CHECK(result.report.stopped == sim::stopped_by_user);
  CHECK(result.report.iterations.size() >= 3);
  CHECK(result.report.iterations.size() < 50);
}

TEST_CASE("simulate summarizes samples of a random scenario, and one run of any other") {
  const Problem problem = small_problem();
  api::SimulateRequest request{problem, plan_of(problem.job, 2, 2, 4), random_scenario()};
  request.samples = 4;
  const api::SimulateResult result = api::simulate(request);
  REQUIRE(result.samples);
  CHECK(result.samples->requested == 4);
  CHECK(result.samples->finished == 4);
  CHECK(result.samples->summary.mean_s.size() == 4);
  request.scenario = {};
  CHECK(api::simulate(request).samples->requested == 1);
}

TEST_CASE("simulate compares how links are shared if asked to, unless it is cancelled") {
  const Problem problem = small_problem();
  api::SimulateRequest request{problem, plan_of(problem.job, 2, 2, 4)};
  CHECK_FALSE(api::simulate(request).fairness);
  request.estimates_accuracy = true;
  const auto fairness = api::simulate(request).fairness;
  const auto expected = sim::compare_fairness(problem, request.plan);
  REQUIRE(fairness);
  REQUIRE(expected);
  CHECK(fairness->equal_s == expected->equal_s);
  CHECK(fairness->rtt_s == expected->rtt_s);
  request.work.stop = [] { return true; };
  CHECK_FALSE(api::simulate(request).fairness);
}

TEST_CASE("simulate takes the fastest layout of a scheme") {
  const Problem problem = small_problem();
  api::SimulateRequest request{problem};
  request.scheme = "megatron";
  const api::SimulateResult result = api::simulate(request);
  REQUIRE(result.chosen);
  CHECK(result.plan == api::choose_layout(problem, api::scheme_named("megatron"), {}, {}).layout->plan);
  CHECK(result.is_feasible());
  CHECK_FALSE(result.swarm);
  request.scheme = "swarm";
  request.iterations = 4;
  const api::SimulateResult swarm = api::simulate(request);
  CHECK(swarm.is_swarm());
  REQUIRE(swarm.swarm);
  CHECK(swarm.report.iterations.size() == 4);
  request.scheme = "megatrom";
  CHECK(error_message([&] { api::simulate(request); }) == "unknown scheme 'megatrom'");
}

TEST_CASE("a scheme is simulated with its own settings whatever the job lists") {
  api::SimulateRequest request{small_problem()};
  request.scheme = "megatron";
  const double seconds = api::simulate(request).report.iteration_time_s.mean;
  request.problem.job.automatic = {Setting::schedule, Setting::gradient_sync};
  request.problem.job.listed = {{Setting::schedule, {"1f1b", "gpipe"}},
                                {Setting::gradient_sync, {"tree", "sharded-ps"}}};
  const api::SimulateResult listed = api::simulate(request);
  CHECK(listed.report.iteration_time_s.mean == seconds);
  CHECK(listed.undecided.is_empty());
  request.problem.job.automatic = {Setting::micro_batch, Setting::gradients};
  request.scheme = "swarm";
  CHECK(api::simulate(request).undecided == SettingSet{Setting::gradients});
}

TEST_CASE("without a layout that fits, a scheme is not simulated") {
  api::SimulateRequest request{small_problem()};
  request.problem.topology.edit().gpus.front().memory = Bytes(1e3);
  request.scheme = "megatron";
  const api::SimulateResult result = api::simulate(request);
  CHECK_FALSE(result.has_layout());
  CHECK_FALSE(result.is_feasible());
  CHECK(result.tasks == 0);
}

TEST_CASE("simulate compares its last iteration with a measured one") {
  const Problem problem = small_problem();
  api::SimulateRequest request{problem, plan_of(problem.job, 2, 2, 4)};
  CHECK_FALSE(api::simulate(request).timeline);
  request.records_timeline = true;
  request.measured = api::simulate(request).timeline;
  REQUIRE(request.measured);
  const auto comparison = api::simulate(request).comparison;
  REQUIRE(comparison);
  CHECK(comparison->unmatched == 0);
  CHECK_FALSE(comparison->diverges_at);
}

// Then it plans again, with the schedule and the collective of the other scheme.
TEST_CASE("compare runs the requested schemes under every scenario") {
  api::CompareRequest request{small_problem()};
  request.schemes = {"planned", "megatron"};
  request.scenarios.push_back(random_scenario());
  std::vector<std::string> names;
  request.work.on_progress = [&](const Progress& progress) {
    if (names.empty() || names.back() != progress.scheme) names.emplace_back(progress.scheme);
    CHECK((progress.evaluations > 0) == (progress.scheme == api::planned_scheme));
  };
  const api::Comparison comparison = api::compare(request);
  CHECK(names == std::vector<std::string>{"planned", "megatron", "planned"});
  CHECK_FALSE(comparison.is_interrupted);
  CHECK(comparison.is_any_feasible());
  REQUIRE(comparison.schemes.size() > 2);
  CHECK(comparison.schemes[0].name == "planned");
  CHECK(comparison.schemes[1].name == "megatron");
  for (std::size_t i = 2; i < comparison.schemes.size(); ++i)
    CHECK(comparison.schemes[i].name.starts_with("planned ("));
  REQUIRE(comparison.speedups.size() == 1);
  const api::Speedup& speedup = comparison.speedups.front();
  CHECK(speedup.scheme == "megatron");
  CHECK(speedup.total == Approx(comparison.schemes[1].runs.front().time_ratio));
  CHECK(speedup.placement * speedup.schedule * speedup.collective == Approx(speedup.total));
  for (const api::ComparedScheme& scheme : comparison.schemes) {
    CAPTURE(scheme.name);
    REQUIRE(scheme.runs.size() == 2);
    for (const api::ComparedRun& run : scheme.runs) {
      CHECK(run.failure.empty());
      CHECK(run.tokens_per_s > 0);
      CHECK(run.seconds_per_batch * run.tokens_per_s ==
            Approx(8.0 * sequence_length(request.problem.job.model)));
    }
  }
  CHECK(comparison.schemes.front().runs.front().time_ratio == 1);
}

TEST_CASE("compared schemes recompute only as much as they need") {
  const auto seconds = [](Recomputation recomputation) {
    api::CompareRequest request{small_problem()};
    request.problem.job.execution.recomputation = recomputation;
    request.schemes = {"megatron"};
    return api::compare(request).schemes.front().runs.front().seconds_per_batch;
  };
  CHECK(seconds(Recomputation::as_needed) == seconds(Recomputation::none));
  CHECK(seconds(Recomputation::full) > 1.1 * seconds(Recomputation::none));
}

// Two replicas of 2e8 parameters fit in memory only if they share the optimizer state (see churn_plans.cpp).
TEST_CASE("compare plans with a sharded optimizer if it survives the departures") {
  api::CompareRequest request;
  request.problem = {flat_topology({2}, link_of(0, 1e9), link_of(0, 1e9)), chain_job(2, 1e8, 100), {}, {}};
  Job& job = request.problem.job;
  job.training.global_batch = 8;
  job.execution.gradient_sync = GradientSync::ring;
  job.automatic[Setting::optimizer_sharding] = true;
  job.parallelism.pipeline = 1;
  job.parallelism.data = 2;
  request.problem.topology.edit().gpus[0].memory = Bytes(2.5e9);
  request.schemes = {"planned"};
  sim::Scenario& scenario = request.scenarios.front();
  scenario.horizon_s = 1000;
  scenario.events = {{100, 1}, {200, 1, sim::DeviceEvent::Kind::join}};
  CHECK_FALSE(api::compare(request).is_any_feasible());
  scenario.checkpoint = sim::Checkpoint{8e9, {}, 0};
  scenario.on_failure = sim::FailurePolicy::wait;
  const api::Comparison waits = api::compare(request);
  REQUIRE(waits.is_any_feasible());
  CHECK(waits.schemes.front().chosen.layout->plan.execution.optimizer_sharding != OptimizerSharding::none);
  CHECK(waits.schemes.front().runs.front().failure.empty());
  // The device that is left has the memory for an unsharded replica only if its own plan is unsharded.
  scenario.on_failure = sim::FailurePolicy::restart;
  const api::Comparison restarts = api::compare(request);
  CHECK(restarts.schemes.front().chosen.layout->plan.execution.optimizer_sharding != OptimizerSharding::none);
  CHECK(restarts.schemes.front().runs.front().failure.ends_with("is out of memory"));
  request.problem.topology.edit().gpus[0].memory = Bytes(3.5e9);
  const api::Comparison unsharded = api::compare(request);
  CHECK(unsharded.schemes.front().chosen.layout->plan.execution.optimizer_sharding ==
        OptimizerSharding::none);
  CHECK(unsharded.schemes.front().runs.front().failure.empty());
}

TEST_CASE("schemes are ranked by throughput, those that end early and those without a result last") {
  const auto scheme = [](const char* name, double tokens_per_s, const char* stopped) {
    api::ComparedScheme result;
    result.name = name;
    if (tokens_per_s >= 0) {
      result.runs.resize(1);
      result.runs.front().tokens_per_s = tokens_per_s;
      result.runs.front().report.stopped = stopped;
    }
    return result;
  };
  api::Comparison comparison;
  comparison.schemes = {scheme("no layout", -1, ""), scheme("short", 9, "deadlocked"), scheme("slow", 1, ""),
                        scheme("failed", 0, ""), scheme("fast", 2, "")};
  std::vector<std::string> names;
  for (const api::ComparedScheme* it : comparison.fastest_first(0)) names.push_back(it->name);
  CHECK(names == std::vector<std::string>{"fast", "slow", "short", "no layout", "failed"});
}

TEST_CASE("a cancelled comparison keeps the schemes so far") {
  api::CompareRequest request{small_problem()};
  request.schemes = {"planned", "megatron"};
  request.work.stop = [] { return true; };
  const api::Comparison comparison = api::compare(request);
  CHECK(comparison.is_interrupted);
  REQUIRE(comparison.schemes.size() == 1);
  CHECK(comparison.schemes.front().name == api::planned_scheme);
}

TEST_CASE("compare rejects an unknown scheme") {
  api::CompareRequest request{small_problem()};
  request.schemes = {"megatrom"};
  CHECK(error_message([&] { api::compare(request); }).find("unknown scheme 'megatrom'") != std::string::npos);
}
