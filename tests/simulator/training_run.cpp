#include <cmath>
#include <string>
#include <vector>

#include "simulator/model/stage_load.hpp"
#include "simulator/run/recovery_graph.hpp"
#include "simulator/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/full_replay.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

using Kind = DeviceEvent::Kind;

/// Records every interval in order.
class IntervalRecorder : public RunObserver {
 public:
  struct Entry {
    RunInterval::Kind kind;
    double start, end;
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  void on_interval(const RunInterval& run_interval) override {
    entries.push_back({run_interval.kind, run_interval.start, run_interval.end});
  }
  std::vector<Entry> entries;
};

/// Pipelines of one stage with one layer, which takes 3 s per micro-batch; weights of 12 MB over 1 MB/s.
/// Gradients are compressed to nothing.
struct Replicas {
  Problem problem;
  Plan plan;
  Scenario scenario;

  Replicas(int devices, int replicas)
      : problem{flat_topology({devices}, link_of(0, 1e6), link_of(0, 1e6)), chain_job(1, 1e6, 0), {}} {
    problem.job.execution.compression.gradients = 0;
    plan = plan_of(problem.job, 1, replicas, 2);
    scenario.detection_s = 1;
    // 12 of the 16 bytes per parameter: the fp32 copy and two moments of 4 bytes each.
    REQUIRE(LoadModel(problem, plan).of(plan.pipelines[0].stages[0]).weight_bytes == 12e6);
  }

  SimReport run(int iterations = 3) {
    interval_recorder.entries.clear();
    SimOptions options;
    options.iterations = iterations;
    options.observers = {&interval_recorder};
    return simulate(problem, plan, scenario, options);
  }
  IntervalRecorder interval_recorder;
};

/// Returns start and end of every iteration in whole microseconds.
std::vector<double> iteration_times(const SimReport& report) {
  std::vector<double> result;
  for (const IterationReport& it : report.iterations)
    for (const double date : {it.start_s, it.end_s}) result.push_back(std::round(date * 1e6) / 1e6);
  return result;
}
using IterationTimes = std::vector<double>;

std::vector<RunInterval::Kind> kinds(const IntervalRecorder& interval_recorder) {
  std::vector<RunInterval::Kind> result;
  for (const IntervalRecorder::Entry& entry : interval_recorder.entries) result.push_back(entry.kind);
  return result;
}

}  // namespace

TEST_CASE("bandwidth that halves during a transfer slows its remaining bytes") {
  // Two stages, one micro-batch, 100 bytes over 100 B/s: forward until 1, sent until 2. From 1.5 on at half
  // the rate: 50 bytes are left, at 50 B/s until 2.5. Forward and backward until 5.5, back in 2 s until 7.5,
  // backward until 9.5. The second iteration: 1 + 2 + 1 + 2 + 2 + 2 = 10 s.
  Problem problem{flat_topology({2}, link_of(0, 100), link_of(0, 100)), chain_job(2, 0, 100), {}};
  Scenario scenario;
  scenario.traces = {{{{1.5, 0.5}}, 0, true}};
  scenario.link_traces = {{LinkTrace::Quantity::bandwidth, {true, true}, {true, true}, false, 0}};
  SimOptions options;
  options.iterations = 2;
  const Plan plan = plan_of(problem.job, 2, 1, 1);
  CHECK(iteration_times(simulate(problem, plan, scenario, options)) == IterationTimes{0, 9.5, 9.5, 19.5});
  // The same rate in bits per second.
  scenario.traces = {{{{1.5, 400}}, 0, false}};
  CHECK(iteration_times(simulate(problem, plan, scenario, options)) == IterationTimes{0, 9.5, 9.5, 19.5});
  // An outage from 1.5 to 3 delays everything from there on by 1.5 s. Then there is no further change.
  scenario.traces = {{{{1.5, 0}, {3, 1}}, 0, true}};
  CHECK(iteration_times(simulate(problem, plan, scenario, options)) == IterationTimes{0, 9.5, 9.5, 17.5});
  // An outage that never ends.
  scenario.traces = {{{{1.5, 0}}, 0, true}};
  const SimReport deadlocked = simulate(problem, plan, scenario, options);
  CHECK(deadlocked.iterations.empty());
  CHECK_THAT(deadlocked.stopped, contains("the iteration is deadlocked: no task ends after 1 s"));
  CHECK(deadlocked.deadlocked);
  // The same in a run with a given length.
  scenario.horizon_s = 20;
  const SimReport until_horizon = simulate(problem, plan, scenario, options);
  CHECK(until_horizon.deadlocked);
  CHECK(until_horizon.length_s == 20);
  // With one more change there is no deadlock: 50 bytes from 19.5 on take until 20, when the run ends.
  scenario.traces = {{{{1.5, 0}, {19.5, 1}}, 0, true}};
  CHECK_FALSE(simulate(problem, plan, scenario, options).deadlocked);
}

TEST_CASE("traces whose product no link can have and extremely long runs are rejected") {
  Problem problem{flat_topology({2}, link_of(0, 100), link_of(0, 100)), chain_job(2, 0, 100), {}};
  const Plan plan = plan_of(problem.job, 2, 1, 1);
  Scenario scenario;
  scenario.traces.assign(3, {{{0, 1e9}}, 0, true});
  for (int i = 0; i < 3; ++i)
    scenario.link_traces.push_back({LinkTrace::Quantity::bandwidth, {true, true}, {true, true}, false, i});
  CHECK_THROWS_WITH(simulate(problem, plan, scenario, {}), contains("multiply to 1e+27"));
  // 100 bytes at 1e-7 bytes per second, in one direction.
  scenario.traces.assign(3, {{{0, 1e-3}}, 0, true});
  CHECK_THROWS_WITH(simulate(problem, plan, scenario, {}), contains("the run would reach 2e+09 s"));
}

TEST_CASE("the state of a stage occupies memory from the start whichever device computes") {
  // adam-16: 16 MB for a stage of a million parameters. The second pipeline has no micro-batches.
  Problem problem{flat_topology({5}, link_of(0, 1e9), link_of(0, 1e9)), chain_job(2, 1e6, 100), {}};
  problem.topology.edit().gpus[0].memory = Bytes(15e6);
  Plan plan = plan_of(problem.job, 2, 2, 1);
  plan.pipelines[1].micro_batches = 0;
  Scenario scenario;
  SimReport report = simulate(problem, plan, scenario, {});
  REQUIRE(report.devices.size() == 4);
  CHECK(report.devices[0].peak_memory_bytes > 16e6);
  CHECK(report.devices[2].peak_memory_bytes == 16e6);
  CHECK(report.devices[3].peak_memory_bytes == 16e6);
  CHECK(report.out_of_memory == std::vector<int>{0, 1, 2, 3});
  // The forward pass of the first stage takes a second, so the second stage has computed nothing by then.
  scenario.horizon_s = 0.5;
  report = simulate(problem, plan, scenario, {});
  CHECK(report.devices[0].peak_memory_bytes > 16e6);
  CHECK(report.devices[1].peak_memory_bytes == 16e6);
  // No device computes at all.
  scenario.on_failure = FailurePolicy::wait;
  scenario.events = {{0, 0, DeviceEvent::Kind::leave}};
  report = simulate(problem, plan, scenario, {});
  CHECK(report.iterations.empty());
  for (const DeviceReport& device : report.devices) CHECK(device.peak_memory_bytes == 16e6);
  // Device 4 replaces device 2, which does not compute.
  scenario = {};
  scenario.on_failure = FailurePolicy::spare;
  scenario.events = {{0, 2, DeviceEvent::Kind::leave}};
  report = simulate(problem, plan, scenario, {});
  REQUIRE(report.devices.size() == 5);
  CHECK(report.devices[4].peak_memory_bytes == 16e6);
}

TEST_CASE("a device that slows down delays its remaining work") {
  // Forward 1 s, backward 2 s. At half speed from 2 on, the last second takes two. Then 6 s per iteration.
  Problem problem{flat_topology({1}, link_of(0, 1), link_of(0, 1)), chain_job(1, 0, 0), {}};
  Scenario scenario;
  scenario.events = {{2, 0, Kind::speed, 0.5}, {10, 0, Kind::speed, 3}};
  SimOptions options;
  // At 10 there are 6 − 6 = 0 s left of the second iteration: it ends there. Then 1 s per iteration.
  CHECK(iteration_times(simulate(problem, plan_of(problem.job, 1, 1, 1), scenario, options)) ==
        IterationTimes{0, 4, 4, 10, 10, 11});
}

TEST_CASE("after a failure the others do the device's micro-batches until it rejoins") {
  // Iterations of 6 s. At 8 device 1 fails, which is detected at 9; alone, pipeline 0 takes 12 s. Device 1
  // rejoins at 20; at the end of the iteration it fetches 12 MB in 12 s.
  Replicas run(2, 2);
  run.scenario.events = {{8, 1, Kind::leave}, {20, 1, Kind::join}};
  const SimReport report = run.run();
  CHECK(iteration_times(report) == IterationTimes{0, 6, 9, 21, 33, 39});
  CHECK(kinds(run.interval_recorder) ==
        std::vector{RunInterval::Kind::iteration, RunInterval::Kind::lost_iteration,
                    RunInterval::Kind::iteration, RunInterval::Kind::recovery, RunInterval::Kind::iteration});
  CHECK(report.lost_work_s == Approx(4));  // two devices, from 6 to 8
  CHECK(report.stopped.empty());
  REQUIRE(report.devices.size() == 2);
  CHECK(report.devices[1].down_s == Approx(12));
  CHECK(report.devices[0].down_s == 0);
  CHECK(report.devices[0].compute_s == Approx(6 + 2 + 12 + 6));
  CHECK(report.devices[1].compute_s == Approx(6 + 2 + 6));
  // Four sequences of one token per iteration, three iterations in 39 s.
  CHECK(report.tokens_per_s == Approx(12.0 / 39));
  CHECK(report.model_flops_per_s == Approx(12 * 3e12 / 39));
  CHECK(report.iteration_time_s.mean == Approx(9));
}

TEST_CASE("after a failure a pipeline without micro-batches takes over those of the failed one") {
  // 4 of 3 s; at 14 device 1 fails, which is detected at 15.
  Replicas run(2, 2);
  run.plan.pipelines[0].micro_batches = 0;
  run.plan.pipelines[1].micro_batches = 4;
  run.scenario.events = {{14, 1, Kind::leave}};
  CHECK(iteration_times(run.run(2)) == IterationTimes{0, 12, 15, 27});
}

TEST_CASE("after a failure with policy wait all devices wait until it rejoins") {
  Replicas run(2, 2);
  run.scenario.on_failure = FailurePolicy::wait;
  run.scenario.events = {{8, 1, Kind::leave}, {20, 1, Kind::join}};
  CHECK(iteration_times(run.run()) == IterationTimes{0, 6, 32, 38, 38, 44});
  // It rejoins before its failure is detected.
  run.scenario.events = {{8, 1, Kind::leave}, {8.5, 1, Kind::join}};
  CHECK(iteration_times(run.run()) == IterationTimes{0, 6, 21, 27, 27, 33});
  // In the first iteration there is nothing to fetch.
  run.scenario.events = {{2, 1, Kind::leave}, {20, 1, Kind::join}};
  CHECK(iteration_times(run.run()) == IterationTimes{20, 26, 26, 32, 32, 38});
}

TEST_CASE("after a failure with policy spare a spare replaces the device") {
  Replicas run(3, 2);
  run.scenario.on_failure = FailurePolicy::spare;
  run.scenario.events = {{8, 1, Kind::leave}, {20, 1, Kind::join}};
  const SimReport report = run.run();
  CHECK(iteration_times(report) == IterationTimes{0, 6, 21, 27, 27, 33});
  REQUIRE(report.devices.size() == 3);
  CHECK(report.devices[2].compute_s == Approx(12));
  CHECK(report.devices[2].receiving_s == Approx(12));
  // Without a permitted spare, as without the pipeline.
  run.scenario.spares.emplace();
  CHECK(iteration_times(run.run()) == IterationTimes{0, 6, 9, 21, 33, 39});
}

TEST_CASE("failures can coincide with other events") {
  Replicas run(2, 2);
  // At the end of an iteration only the detection time is lost.
  run.scenario.events = {{12, 1, Kind::leave}};
  SimReport report = run.run();
  CHECK(iteration_times(report) == IterationTimes{0, 6, 6, 12, 13, 25});
  CHECK(report.lost_work_s == Approx(0).margin(1e-6));
  // During a recovery: the recovery restarts, here with no device to recover.
  run.scenario.events = {{8, 1, Kind::leave}, {20, 1, Kind::join}, {25, 1, Kind::leave}};
  report = run.run();
  CHECK(iteration_times(report) == IterationTimes{0, 6, 9, 21, 26, 38});
  CHECK(report.lost_work_s == Approx(4));
  // A device that does not compute: no other device is affected.
  run.scenario.events = {{8, 1, Kind::leave}, {15, 1, Kind::join}, {16, 1, Kind::leave}};
  CHECK(iteration_times(run.run()) == IterationTimes{0, 6, 9, 21, 21, 33});
  // At the start of the run.
  run.scenario.events = {{0, 1, Kind::leave}};
  CHECK(iteration_times(run.run()) == IterationTimes{0, 12, 12, 24, 24, 36});
}

TEST_CASE("if all copies are lost the run needs a checkpoint") {
  Replicas run(2, 2);
  run.scenario.events = {{8, 0, Kind::leave}, {8, 1, Kind::leave}, {30, 1, Kind::join}};
  SimReport report = run.run();
  CHECK(iteration_times(report) == IterationTimes{0, 6});
  CHECK_THAT(report.stopped, contains("no available device has the weights of layers 0 to 0"));
  // 12 MB at 2 MB/s; then 12 s per iteration.
  run.scenario.checkpoint = Checkpoint{16e6, {}};
  CHECK(iteration_times(run.run()) == IterationTimes{0, 6, 36, 48, 48, 60});
  // The same store next to device 0, whose link has 1 MB/s.
  run.scenario.checkpoint = Checkpoint{16e6, 0};
  CHECK(iteration_times(run.run()) == IterationTimes{0, 6, 42, 54, 54, 66});
  // No device rejoins.
  run.scenario.events.pop_back();
  report = run.run();
  CHECK(iteration_times(report) == IterationTimes{0, 6});
  CHECK_THAT(report.stopped,
             contains("no device joins any more, and under policy `restart-without-pipeline` no pipeline can "
                      "run without s0/0 (left at 8 s), s0/1 (left at 8 s)"));
  CHECK(report.deadlocked);
  CHECK(report.lost_work_s == Approx(4));
}

TEST_CASE("a device of a paused pipeline can fail while others fetch from it") {
  // Two pipelines of two stages, 12 MB each, over 1 MB/s. At 20, in the second iteration, devices 0 and 3
  // fail: no pipeline is complete. At 30 device 0 rejoins and fetches from device 2, whose pipeline is
  // paused, until 42; but at 35 device 2 fails, which is detected at 36.
  Problem problem{flat_topology({5}, link_of(0, 1e6), link_of(0, 1e6)), chain_job(2, 1e6, 0), {}};
  problem.job.execution.compression.gradients = 0;
  const Plan plan = plan_of(problem.job, 2, 2, 4);
  Scenario scenario;
  scenario.detection_s = 1;
  scenario.events = {{20, 0, Kind::leave}, {20, 3, Kind::leave}, {30, 0, Kind::join}, {35, 2, Kind::leave}};
  IntervalRecorder interval_recorder;
  SimOptions options;
  options.iterations = 2;
  options.observers = {&interval_recorder};
  // Four micro-batches of two stages: (4 + 1) · 3 s; after the failures 8 of them, 27 s.
  SimReport report = simulate(problem, plan, scenario, options);
  CHECK(iteration_times(report) == IterationTimes{0, 15});
  CHECK_THAT(report.stopped, contains("no available device has the weights of layers 0 to 0"));
  CHECK(interval_recorder.entries.back() == IntervalRecorder::Entry{RunInterval::Kind::recovery, 30, 35});
  REQUIRE(report.devices.size() == 4);
  CHECK(report.devices[2].down_s == 1);
  CHECK(report.devices[2].sending_s == 5);
  // All of it is loaded again from the checkpoint at 2 MB/s: 36 to 42.
  scenario.checkpoint = Checkpoint{16e6, {}};
  CHECK(iteration_times(simulate(problem, plan, scenario, options)) == IterationTimes{0, 15, 42, 69});
  // It fails when the last byte arrives: no other device is affected.
  scenario.events.back().date = 42;
  CHECK(iteration_times(simulate(problem, plan, scenario, options)) == IterationTimes{0, 15, 42, 69});
}

TEST_CASE("a device reads its parts of a checkpoint one after the other") {
  // 100 B/s per device: device 0 reads 100 and 200 bytes, device 1 reads 150.
  const Problem problem{flat_topology({2}, link_of(0, 1e6), link_of(0, 1e6)), chain_job(2, 0, 0), {}};
  const std::vector<Fetch> fetches = {
      {0, 0, 0, 0, {0, 1}, {}, 100}, {1, 0, 0, 0, {0, 1}, {}, 150}, {0, 0, 1, 0, {1, 2}, {}, 200}};
  for (const std::optional<int> device : {std::optional<int>(), std::optional(0), std::optional(1)}) {
    const Replay replayed = replay(recovery_graph(problem, fetches, Checkpoint{800, device}).graph);
    CHECK(replayed.makespan == Approx(3));
    CHECK(replayed.tasks[1].finish == Approx(1.5));
  }
}

TEST_CASE("two copies send to two devices that fetch") {
  // Four replicas; 2 and 3 fail and rejoin together: both fetch at once, from 0 and from 1. Micro-batches of
  // 3 s: 2 each, then 4 each in two pipelines.
  Replicas run(4, 4);
  run.scenario.events = {{8, 2, Kind::leave}, {8, 3, Kind::leave}, {20, 2, Kind::join}, {20, 3, Kind::join}};
  CHECK(iteration_times(run.run()) == IterationTimes{0, 6, 9, 21, 33, 39});
}

TEST_CASE("layers are fetched from any device that has them") {
  // Pipeline 0 has four layers on one device; pipeline 1 has one and three on two. 12 MB per layer over 1
  // MB/s.
  Problem problem{flat_topology({3}, link_of(0, 1e6), link_of(0, 1e6)), chain_job(4, 1e6, 0), {}};
  problem.job.execution.compression.gradients = 0;
  Plan plan = plan_of(problem.job, 1, 1, 2);
  plan.pipelines.push_back({2, {{{0, 1}, {1}}, {{1, 4}, {2}}}});
  Scenario scenario;
  scenario.on_failure = FailurePolicy::wait;
  SimOptions options;
  options.iterations = 2;
  // Device 0 computes 2 · 12 = 24 s. It fails at 30 and rejoins at 31. The two others send at once, 12 s and
  // 36 s, over separate links.
  scenario.events = {{30, 0, Kind::leave}, {31, 0, Kind::join}};
  CHECK(iteration_times(simulate(problem, plan, scenario, options)) ==
        IterationTimes{0, 24, 31 + 36, 31 + 36 + 24});
  // Devices 1 and 2 have both failed and rejoined: one sender, two links.
  scenario.events = {{30, 1, Kind::leave}, {30, 2, Kind::leave}, {31, 1, Kind::join}, {31, 2, Kind::join}};
  CHECK(iteration_times(simulate(problem, plan, scenario, options)) ==
        IterationTimes{0, 24, 31 + 36, 31 + 36 + 24});
}

TEST_CASE("a horizon ends the run") {
  Replicas run(2, 2);
  run.scenario.horizon_s = 15;
  const SimReport report = run.run();
  CHECK(report.length_s == 15);
  CHECK(iteration_times(report) == IterationTimes{0, 6, 6, 12});
  CHECK(kinds(run.interval_recorder).back() == RunInterval::Kind::lost_iteration);
  CHECK(report.lost_work_s == 0);
  CHECK(report.devices[0].compute_s == Approx(15));
  CHECK(report.tokens_per_s == Approx(4.0 / 9));
  // Waiting until then.
  run.scenario.events = {{8, 0, Kind::leave}, {8, 1, Kind::leave}};
  const SimReport waits = run.run();
  CHECK(waits.devices[0].down_s == Approx(7));
  CHECK_FALSE(waits.stopped.empty());
}

TEST_CASE("jitter differs between iterations and depends on the seed") {
  Replicas run(1, 1);
  run.scenario.compute_jitter.cv = 0.1;
  const SimReport first = run.run(200), second = run.run(200);
  CHECK(iteration_times(first) == iteration_times(second));
  CHECK(first.iterations[0].duration_s() != first.iterations[1].duration_s());
  // Two forward passes of 1 s and two backward passes of 2 s: mean 6, variance 0.01 · (1 + 1 + 4 + 4); five
  // standard deviations of the mean of 199.
  CHECK(std::abs(first.iteration_time_s.mean - 6) < 5 * std::sqrt(0.1 / 199));
  run.scenario.seed = 1;
  CHECK(iteration_times(run.run(200)) != iteration_times(first));
}

TEST_CASE("a run can be stopped between iterations") {
  Replicas run(2, 2);
  int asked = 0;
  SimOptions options;
  options.stop = [&] { return ++asked > 2; };
  const SimReport report = simulate(run.problem, run.plan, with_full_replay(run.scenario, 2), options);
  CHECK(report.iterations.size() == 2);
  CHECK(report.stopped == "interrupted");
}

TEST_CASE("a run can be stopped while its first graph is built, and while an iteration is evaluated") {
  Replicas run(2, 2);
  run.plan = plan_of(run.problem.job, 1, 2, 6000);
  int asked = 0;
  SimOptions options;
  options.iterations = 1;
  options.stop = [&] { return ++asked < 0; };
  const SimReport whole = simulate(run.problem, run.plan, run.scenario, options);
  REQUIRE(whole.tasks > 20'000);
  const int all = asked;
  for (const int last : {1, all}) {
    CAPTURE(last);
    asked = 0;
    options.stop = [&] { return ++asked >= last; };
    const SimReport report = simulate(run.problem, run.plan, run.scenario, options);
    CHECK(report.stopped == "interrupted");
    CHECK(report.iterations.empty());
    CHECK(asked == last);
  }
}

TEST_CASE("interleaved pipelines get permitted numbers of micro-batches") {
  // Pipelines of two devices in two chunks need even numbers: of 12, one pipeline gets all; of 6, two get 4
  // and 2. An equal split, 3 each, is not possible.
  for (const int replicas : {2, 3}) {
    Problem problem{flat_topology({2 * replicas}, link_of(0, 1e6), link_of(0, 1e6)), chain_job(4, 0, 1), {}};
    problem.job.execution.schedule = Schedule::interleaved;
    problem.job.execution.chunks = 2;
    Scenario scenario;
    scenario.events = {{1, 0, Kind::leave}};
    const SimReport report =
        simulate(problem, plan_of(problem.job, 2, replicas, replicas == 2 ? 6 : 2), scenario, {});
    CHECK(report.stopped.empty());
    CHECK(report.iterations.size() == 3);
  }
}

// Two pipelines leave site 0, whose uplink carries 100 B/s, at once: 100 bytes each to site 1, 0.1 s away,
// and to site 2, 0.3 s away. With equal shares they take 2 s; with shares by round-trip time the first gets
// three quarters and arrives 2 − 4/3 s earlier. Its second device computes at a quarter of the speed, so that
// all wait for it.
TEST_CASE("fairness by round-trip time changes the duration of an iteration") {
  Problem problem{flat_topology({2, 1, 1}, link_of(0, 1e18), link_of(0.1, 1e18)), chain_job(2, 0, 100), {}};
  auto& rules = std::get<RuleLinks>(problem.topology.edit().links);
  rules.links.push_back(link_of(0.3, 1e18));
  rules.table(0, 2) = rules.table(2, 0) = 2;
  problem.topology.edit().devices[2].speed = 0.25;
  Plan plan = plan_of(problem.job, 2, 2, 1);
  plan.pipelines[0].stages[1].devices = {2};
  plan.pipelines[1].stages[0].devices = {1};
  const FairnessComparison free = compare_fairness(problem, plan).value();
  CHECK(free.equal_s == free.rtt_s);
  problem.topology.edit().sites[0].uplink = BitsPerSecond(8 * 100);
  const FairnessComparison shared = compare_fairness(problem, plan).value();
  CHECK(shared.equal_s - shared.rtt_s == Approx(2 - 4.0 / 3).epsilon(1e-9));
  CHECK(shared.equal_s - free.equal_s == Approx(2).epsilon(1e-9));
}

TEST_CASE("a run that is stopped within an iteration keeps those before it") {
  // Every iteration has the same tasks: the run checks for a stop once before each, the replay at equal
  // points within it.
  const Problem problem{flat_topology({2}, link_of(0, 100), link_of(0, 100)), chain_job(2, 0, 100), {}};
  const Plan plan = plan_of(problem.job, 2, 1, 200);
  Scenario scenario;
  scenario.compute_jitter.cv = 0.01;  // every iteration is replayed
  SimOptions options;
  options.iterations = 5;
  int asked = 0;
  options.stop = [&] { return ++asked < 0; };
  const SimReport whole = simulate(problem, plan, scenario, options);
  const int questions = asked / 5;  // per iteration
  REQUIRE(questions > 3);
  asked = 0;
  options.stop = [&] { return ++asked == 2 * questions + 2; };  // the first check within the third iteration
  const SimReport cut = simulate(problem, plan, scenario, options);
  CHECK(cut.stopped == "interrupted");
  REQUIRE(cut.iterations.size() == 2);
  CHECK(cut.iterations[1].end_s == whole.iterations[1].end_s);
  CHECK(cut.length_s == cut.iterations[1].end_s);
  CHECK(cut.tasks == 2 * whole.tasks / 5);
  CHECK(cut.lost_work_s == 0);

  asked = 0;
  CHECK_FALSE(compare_fairness(problem, plan, [&] { return ++asked == 2; }));
}

TEST_CASE("a run that is stopped anywhere reports no device time beyond its completed iterations") {
  const Problem problem{flat_topology({2}, link_of(0, 100), link_of(0, 100)), chain_job(2, 0, 100), {}};
  const Plan plan = plan_of(problem.job, 2, 1, 3000);
  SimOptions options;
  options.iterations = 2;
  int asked = 0;
  options.stop = [&] { return ++asked < 0; };
  const SimReport whole = simulate(problem, plan, with_full_replay({}, 2), options);
  int partial = 0;
  for (int last = 1; last <= asked; ++last) {
    int now = 0;
    options.stop = [&] { return ++now >= last; };
    const SimReport cut = simulate(problem, plan, with_full_replay({}, 2), options);
    CHECK(cut.length_s == (cut.iterations.empty() ? 0 : cut.iterations.back().end_s));
    for (const DeviceReport& device : cut.devices) {
      CHECK(device.compute_s <= cut.length_s);
      CHECK(device.compute_s ==
            Approx(whole.devices.front().compute_s * static_cast<double>(cut.iterations.size()) / 2));
    }
    if (cut.iterations.size() == 1) ++partial;
  }
  CHECK(partial > 0);
}

TEST_CASE("an interrupted run with failures reports its useful work") {
  Replicas run(2, 2);
  run.scenario.events = {{1, 0, Kind::leave}, {2, 0, Kind::join}};
  run.scenario = with_full_replay(run.scenario, 2);
  SimOptions options;
  options.iterations = 20;
  options.stop = [] { return false; };
  const SimReport whole = simulate(run.problem, run.plan, run.scenario, options);
  REQUIRE(whole.useful);
  int asked = 0;
  options.stop = [&] { return ++asked < 0; };
  simulate(run.problem, run.plan, run.scenario, options);
  const int all = asked;
  asked = 0;
  options.stop = [&] { return ++asked > all / 2; };
  const SimReport cut = simulate(run.problem, run.plan, run.scenario, options);
  CHECK(cut.stopped == "interrupted");
  CHECK(!cut.iterations.empty());
  CHECK(cut.iterations.size() < 20);
  CHECK(cut.useful);
}
