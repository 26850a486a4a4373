#include <cmath>
#include <string>
#include <vector>

#include "simulator/model/stage_load.hpp"
#include "simulator/run/recovery_graph.hpp"
#include "simulator/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

using Kind = DeviceEvent::Kind;

/// Every stretch, in order.
class IntervalRecorder : public RunObserver {
 public:
  struct Entry {
    RunInterval::Kind kind;
    double start, end;
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  void on_interval(const RunInterval& run_interval) override { entries.push_back({run_interval.kind, run_interval.start, run_interval.end}); }
  std::vector<Entry> entries;
};

/// Pipelines of one stage with one layer, which takes 3 s a micro-batch; weights of 12 MB over 1 MB/s. The
/// gradients are compressed to nothing.
struct Replicas {
  Problem problem;
  Plan plan;
  Scenario scenario;

  Replicas(int devices, int replicas)
      : problem{flat_topology({devices}, link_of(0, 1e6), link_of(0, 1e6)), chain_job(1, 1e6, 0), {}} {
    problem.job.compression.gradients = 0;
    plan = plan_of(problem.job, 1, replicas, 2);
    scenario.detection_s = 1;
    // Of the 16 bytes a parameter: its fp32 copy and the two moments, of 4 bytes each.
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

/// Start and end of every iteration, in whole microseconds.
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

TEST_CASE("bandwidth that halves in the middle of a transfer") {
  // Two stages, one micro-batch, 100 bytes over 100 B/s: forward to 1, sent to 2. From 1.5 on half of it:
  // 50 bytes are left, at 50 B/s to 2.5. Forward and backward to 5.5, back in 2 s to 7.5, backward to 9.5.
  // The second iteration: 1 + 2 + 1 + 2 + 2 + 2 = 10 s.
  Problem problem{flat_topology({2}, link_of(0, 100), link_of(0, 100)), chain_job(2, 0, 100), {}};
  Scenario scenario;
  scenario.traces = {{{{1.5, 0.5}}, 0, true}};
  scenario.link_traces = {{LinkTrace::Quantity::bandwidth, {true, true}, {true, true}, false, 0}};
  SimOptions options;
  options.iterations = 2;
  const Plan plan = plan_of(problem.job, 2, 1, 1);
  CHECK(iteration_times(simulate(problem, plan, scenario, options)) == IterationTimes{0, 9.5, 9.5, 19.5});
  // The same rate, said in bits per second.
  scenario.traces = {{{{1.5, 400}}, 0, false}};
  CHECK(iteration_times(simulate(problem, plan, scenario, options)) == IterationTimes{0, 9.5, 9.5, 19.5});
  // Nothing moves from 1.5 to 3: everything from there on is 1.5 s late. Then without change.
  scenario.traces = {{{{1.5, 0}, {3, 1}}, 0, true}};
  CHECK(iteration_times(simulate(problem, plan, scenario, options)) == IterationTimes{0, 9.5, 9.5, 17.5});
  // Nothing ever moves again.
  scenario.traces = {{{{1.5, 0}}, 0, true}};
  const SimReport deadlocked = simulate(problem, plan, scenario, options);
  CHECK(deadlocked.iterations.empty());
  CHECK_THAT(deadlocked.stopped, contains("has come to a stand for ever: nothing of it ends after 1 s"));
  CHECK(deadlocked.deadlocked);
  // Neither where the run has a given length.
  scenario.horizon_s = 20;
  const SimReport until_horizon = simulate(problem, plan, scenario, options);
  CHECK(until_horizon.deadlocked);
  CHECK(until_horizon.length_s == 20);
  // Had it one more change, it would not be stuck: 50 bytes from 19.5 on take until 20, when the run ends.
  scenario.traces = {{{{1.5, 0}, {19.5, 1}}, 0, true}};
  CHECK_FALSE(simulate(problem, plan, scenario, options).deadlocked);
}

TEST_CASE("traces that multiply to what no link can be, and runs of ages, are refused") {
  Problem problem{flat_topology({2}, link_of(0, 100), link_of(0, 100)), chain_job(2, 0, 100), {}};
  const Plan plan = plan_of(problem.job, 2, 1, 1);
  Scenario scenario;
  scenario.traces.assign(3, {{{0, 1e9}}, 0, true});
  for (int i = 0; i < 3; ++i)
    scenario.link_traces.push_back({LinkTrace::Quantity::bandwidth, {true, true}, {true, true}, false, i});
  CHECK_THROWS_WITH(simulate(problem, plan, scenario, {}), contains("multiply to 1e+27"));
  // 100 bytes at 1e-7 bytes a second, one way.
  scenario.traces.assign(3, {{{0, 1e-3}}, 0, true});
  CHECK_THROWS_WITH(simulate(problem, plan, scenario, {}), contains("the run would reach 2e+09 s"));
}

TEST_CASE("the state of a place counts from the start, whoever computes") {
  // adam-16: 16 MB for a stage of a million parameters. The second pipeline has no micro-batches.
  Problem problem{flat_topology({5}, link_of(0, 1e9), link_of(0, 1e9)), chain_job(2, 1e6, 100), {}};
  problem.topology.gpus[0].memory = Bytes(15e6);
  Plan plan = plan_of(problem.job, 2, 2, 1);
  plan.pipelines[1].micro_batches = 0;
  Scenario scenario;
  SimReport report = simulate(problem, plan, scenario, {});
  REQUIRE(report.devices.size() == 4);
  CHECK(report.devices[0].peak_memory_bytes > 16e6);
  CHECK(report.devices[2].peak_memory_bytes == 16e6);
  CHECK(report.devices[3].peak_memory_bytes == 16e6);
  CHECK(report.out_of_memory == std::vector<int>{0, 1, 2, 3});
  // The forward of the first stage takes a second: the second stage has computed nothing by then.
  scenario.horizon_s = 0.5;
  report = simulate(problem, plan, scenario, {});
  CHECK(report.devices[0].peak_memory_bytes > 16e6);
  CHECK(report.devices[1].peak_memory_bytes == 16e6);
  // Nobody computes at all.
  scenario.on_failure = "wait";
  scenario.events = {{0, 0, DeviceEvent::Kind::leave}};
  report = simulate(problem, plan, scenario, {});
  CHECK(report.iterations.empty());
  for (const DeviceReport& device : report.devices) CHECK(device.peak_memory_bytes == 16e6);
  // Device 4 takes the place of device 2, which does not compute.
  scenario = {};
  scenario.on_failure = "spare";
  scenario.events = {{0, 2, DeviceEvent::Kind::leave}};
  report = simulate(problem, plan, scenario, {});
  REQUIRE(report.devices.size() == 5);
  CHECK(report.devices[4].peak_memory_bytes == 16e6);
}

TEST_CASE("a device that slows down") {
  // Forward 1 s, backward 2 s. Half speed from 2 on: the last second takes two. Then 6 s an iteration.
  Problem problem{flat_topology({1}, link_of(0, 1), link_of(0, 1)), chain_job(1, 0, 0), {}};
  Scenario scenario;
  scenario.events = {{2, 0, Kind::speed, 0.5}, {10, 0, Kind::speed, 3}};
  SimOptions options;
  // At 10 there are 6 − 6 = 0 s left of the second: it ends there. Then 1 s an iteration.
  CHECK(iteration_times(simulate(problem, plan_of(problem.job, 1, 1, 1), scenario, options)) ==
        IterationTimes{0, 4, 4, 10, 10, 11});
}

TEST_CASE("a departure: the others do its micro-batches until it is back") {
  // Iterations of 6 s. At 8 device 1 leaves, at 9 this is known; alone, pipeline 0 takes 12 s. Device 1 is
  // back at 20; at the end of the iteration it fetches 12 MB in 12 s.
  Replicas run(2, 2);
  run.scenario.events = {{8, 1, Kind::leave}, {20, 1, Kind::join}};
  const SimReport report = run.run();
  CHECK(iteration_times(report) == IterationTimes{0, 6, 9, 21, 33, 39});
  CHECK(kinds(run.interval_recorder) == std::vector{RunInterval::Kind::iteration, RunInterval::Kind::lost_iteration,
                                        RunInterval::Kind::iteration, RunInterval::Kind::recovery,
                                        RunInterval::Kind::iteration});
  CHECK(report.lost_work_s == Approx(4));  // two devices, from 6 to 8
  CHECK(report.stopped.empty());
  REQUIRE(report.devices.size() == 2);
  CHECK(report.devices[1].down_s == Approx(12));
  CHECK(report.devices[0].down_s == 0);
  CHECK(report.devices[0].compute_s == Approx(6 + 2 + 12 + 6));
  CHECK(report.devices[1].compute_s == Approx(6 + 2 + 6));
  // Four sequences of one token an iteration, three iterations in 39 s.
  CHECK(report.tokens_per_s == Approx(12.0 / 39));
  CHECK(report.model_flops_per_s == Approx(12 * 3e12 / 39));
  CHECK(report.iteration_time_s.mean == Approx(9));
}

TEST_CASE("a departure: the pipeline that goes on had no micro-batches") {
  // 4 of 3 s; at 14 device 1 leaves, at 15 this is known.
  Replicas run(2, 2);
  run.plan.pipelines[0].micro_batches = 0;
  run.plan.pipelines[1].micro_batches = 4;
  run.scenario.events = {{14, 1, Kind::leave}};
  CHECK(iteration_times(run.run(2)) == IterationTimes{0, 12, 15, 27});
}

TEST_CASE("a departure: all wait until it is back") {
  Replicas run(2, 2);
  run.scenario.on_failure = "wait";
  run.scenario.events = {{8, 1, Kind::leave}, {20, 1, Kind::join}};
  CHECK(iteration_times(run.run()) == IterationTimes{0, 6, 32, 38, 38, 44});
  // It is back before it was missed.
  run.scenario.events = {{8, 1, Kind::leave}, {8.5, 1, Kind::join}};
  CHECK(iteration_times(run.run()) == IterationTimes{0, 6, 21, 27, 27, 33});
  // In the first iteration there is nothing to fetch.
  run.scenario.events = {{2, 1, Kind::leave}, {20, 1, Kind::join}};
  CHECK(iteration_times(run.run()) == IterationTimes{20, 26, 26, 32, 32, 38});
}

TEST_CASE("a departure: a spare takes the place") {
  Replicas run(3, 2);
  run.scenario.on_failure = "spare";
  run.scenario.events = {{8, 1, Kind::leave}, {20, 1, Kind::join}};
  const SimReport report = run.run();
  CHECK(iteration_times(report) == IterationTimes{0, 6, 21, 27, 27, 33});
  REQUIRE(report.devices.size() == 3);
  CHECK(report.devices[2].compute_s == Approx(12));
  CHECK(report.devices[2].receiving_s == Approx(12));
  // Without one that may: as without the pipeline.
  run.scenario.spares.emplace();
  CHECK(iteration_times(run.run()) == IterationTimes{0, 6, 9, 21, 33, 39});
}

TEST_CASE("departures at the same time as something else") {
  Replicas run(2, 2);
  // At the end of an iteration: nothing is lost but the time of detection.
  run.scenario.events = {{12, 1, Kind::leave}};
  SimReport report = run.run();
  CHECK(iteration_times(report) == IterationTimes{0, 6, 6, 12, 13, 25});
  CHECK(report.lost_work_s == Approx(0).margin(1e-6));
  // In a recovery: it starts anew, here with nobody to recover.
  run.scenario.events = {{8, 1, Kind::leave}, {20, 1, Kind::join}, {25, 1, Kind::leave}};
  report = run.run();
  CHECK(iteration_times(report) == IterationTimes{0, 6, 9, 21, 26, 38});
  CHECK(report.lost_work_s == Approx(4));
  // Of one who does not compute: nobody is disturbed.
  run.scenario.events = {{8, 1, Kind::leave}, {15, 1, Kind::join}, {16, 1, Kind::leave}};
  CHECK(iteration_times(run.run()) == IterationTimes{0, 6, 9, 21, 21, 33});
  // From the start.
  run.scenario.events = {{0, 1, Kind::leave}};
  CHECK(iteration_times(run.run()) == IterationTimes{0, 12, 12, 24, 24, 36});
}

TEST_CASE("when all copies are gone, there is the checkpoint or nothing") {
  Replicas run(2, 2);
  run.scenario.events = {{8, 0, Kind::leave}, {8, 1, Kind::leave}, {30, 1, Kind::join}};
  SimReport report = run.run();
  CHECK(iteration_times(report) == IterationTimes{0, 6});
  CHECK_THAT(report.stopped, contains("no device that is there has the weights of layers 0 to 0"));
  // 12 MB at 2 MB/s; then 12 s an iteration.
  run.scenario.checkpoint = Checkpoint{16e6, {}};
  CHECK(iteration_times(run.run()) == IterationTimes{0, 6, 36, 48, 48, 60});
  // The same store beside device 0, which lets 1 MB/s through.
  run.scenario.checkpoint = Checkpoint{16e6, 0};
  CHECK(iteration_times(run.run()) == IterationTimes{0, 6, 42, 54, 54, 66});
  // Nobody comes back.
  run.scenario.events.pop_back();
  report = run.run();
  CHECK(iteration_times(report) == IterationTimes{0, 6});
  CHECK_THAT(report.stopped,
             contains("nobody joins any more, and under the policy `restart-without-pipeline` no pipeline "
                      "runs without s0/0 (gone at 8 s), s0/1 (gone at 8 s)"));
  CHECK(report.deadlocked);
  CHECK(report.lost_work_s == Approx(4));
}

TEST_CASE("a device of a pipeline that pauses leaves while others fetch from it") {
  // Two pipelines of two stages, 12 MB each, over 1 MB/s. At 20, in the second iteration, devices 0 and 3
  // leave: no pipeline is whole. At 30 device 0 is back and fetches from device 2, whose pipeline pauses,
  // until 42; but at 35 device 2 leaves, which is known at 36.
  Problem problem{flat_topology({5}, link_of(0, 1e6), link_of(0, 1e6)), chain_job(2, 1e6, 0), {}};
  problem.job.compression.gradients = 0;
  const Plan plan = plan_of(problem.job, 2, 2, 4);
  Scenario scenario;
  scenario.detection_s = 1;
  scenario.events = {{20, 0, Kind::leave}, {20, 3, Kind::leave}, {30, 0, Kind::join}, {35, 2, Kind::leave}};
  IntervalRecorder interval_recorder;
  SimOptions options;
  options.iterations = 2;
  options.observers = {&interval_recorder};
  // Four micro-batches of two stages: (4 + 1) · 3 s; after the departures 8 of them, 27 s.
  SimReport report = simulate(problem, plan, scenario, options);
  CHECK(iteration_times(report) == IterationTimes{0, 15});
  CHECK_THAT(report.stopped, contains("no device that is there has the weights of layers 0 to 0"));
  CHECK(interval_recorder.entries.back() == IntervalRecorder::Entry{RunInterval::Kind::recovery, 30, 35});
  REQUIRE(report.devices.size() == 4);
  CHECK(report.devices[2].down_s == 1);
  CHECK(report.devices[2].sending_s == 5);
  // All of it again from the checkpoint, at 2 MB/s: 36 to 42.
  scenario.checkpoint = Checkpoint{16e6, {}};
  CHECK(iteration_times(simulate(problem, plan, scenario, options)) == IterationTimes{0, 15, 42, 69});
  // It leaves as the last byte arrives: nobody is disturbed.
  scenario.events.back().date = 42;
  CHECK(iteration_times(simulate(problem, plan, scenario, options)) == IterationTimes{0, 15, 42, 69});
}

TEST_CASE("a device reads one thing after the other from the checkpoint") {
  // 100 B/s a device: device 0 reads 100 and 200 bytes, device 1 reads 150.
  const Problem problem{flat_topology({2}, link_of(0, 1e6), link_of(0, 1e6)), chain_job(2, 0, 0), {}};
  const std::vector<Fetch> fetches = {
      {0, 0, 0, 0, 1, {0, 1}, {}, 100}, {1, 0, 0, 0, 1, {0, 1}, {}, 150}, {0, 0, 1, 0, 1, {1, 2}, {}, 200}};
  for (const std::optional<int> beside : {std::optional<int>(), std::optional(0), std::optional(1)}) {
    const Replay replayed = replay(recovery_graph(problem, fetches, Checkpoint{800, beside}).graph);
    CHECK(replayed.makespan == Approx(3));
    CHECK(replayed.tasks[1].finish == Approx(1.5));
  }
}

TEST_CASE("two copies send to two who fetch") {
  // Four replicas; 2 and 3 leave and come back together: both fetch at once, from 0 and from 1. Micro-batches
  // of 3 s: 2 each, then 4 each of two pipelines.
  Replicas run(4, 4);
  run.scenario.events = {{8, 2, Kind::leave}, {8, 3, Kind::leave}, {20, 2, Kind::join}, {20, 3, Kind::join}};
  CHECK(iteration_times(run.run()) == IterationTimes{0, 6, 9, 21, 33, 39});
}

TEST_CASE("layers are fetched from whoever has them") {
  // Pipeline 0 has four layers on one device; pipeline 1 one and three on two. 12 MB a layer over 1 MB/s.
  Problem problem{flat_topology({3}, link_of(0, 1e6), link_of(0, 1e6)), chain_job(4, 1e6, 0), {}};
  problem.job.compression.gradients = 0;
  Plan plan = plan_of(problem.job, 1, 1, 2);
  plan.pipelines.push_back({2, {{{0, 1}, {1}}, {{1, 4}, {2}}}});
  Scenario scenario;
  scenario.on_failure = "wait";
  SimOptions options;
  options.iterations = 2;
  // Device 0 computes 2 · 12 = 24 s. It leaves at 30 and is back at 31. The two others send at once, 12 s and
  // 36 s, as their links are their own.
  scenario.events = {{30, 0, Kind::leave}, {31, 0, Kind::join}};
  CHECK(iteration_times(simulate(problem, plan, scenario, options)) == IterationTimes{0, 24, 31 + 36, 31 + 36 + 24});
  // Devices 1 and 2 have both been away: one sender, two links.
  scenario.events = {{30, 1, Kind::leave}, {30, 2, Kind::leave}, {31, 1, Kind::join}, {31, 2, Kind::join}};
  CHECK(iteration_times(simulate(problem, plan, scenario, options)) == IterationTimes{0, 24, 31 + 36, 31 + 36 + 24});
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

TEST_CASE("jitter differs from iteration to iteration and is that of the seed") {
  Replicas run(1, 1);
  run.scenario.compute_jitter.cv = 0.1;
  const SimReport first = run.run(200), second = run.run(200);
  CHECK(iteration_times(first) == iteration_times(second));
  CHECK(first.iterations[0].duration_s() != first.iterations[1].duration_s());
  // Two forwards of 1 s and two backwards of 2 s: mean 6, variance 0.01 · (1 + 1 + 4 + 4); of the mean of 199
  // five deviations.
  CHECK(std::abs(first.iteration_time_s.mean - 6) < 5 * std::sqrt(0.1 / 199));
  run.scenario.seed = 1;
  CHECK(iteration_times(run.run(200)) != iteration_times(first));
}

TEST_CASE("a run is asked to stop between iterations") {
  Replicas run(2, 2);
  int asked = 0;
  SimOptions options;
  options.stop = [&] { return ++asked > 2; };
  const SimReport report = simulate(run.problem, run.plan, run.scenario, options);
  CHECK(report.iterations.size() == 2);
  CHECK(report.stopped == "interrupted");
}

TEST_CASE("interleaved pipelines are dealt micro-batches in numbers that they can do") {
  // Pipelines of two devices in two chunks need even numbers: of 12, one pipeline gets all; of 6, two get 4
  // and 2. By halves, 3 each, there would be none.
  for (const int replicas : {2, 3}) {
    Problem problem{flat_topology({2 * replicas}, link_of(0, 1e6), link_of(0, 1e6)), chain_job(4, 0, 1), {}};
    problem.job.parallelism.schedule = "interleaved";
    problem.job.parallelism.chunks = 2;
    Scenario scenario;
    scenario.events = {{1, 0, Kind::leave}};
    const SimReport report =
        simulate(problem, plan_of(problem.job, 2, replicas, replicas == 2 ? 6 : 2), scenario, {});
    CHECK(report.stopped.empty());
    CHECK(report.iterations.size() == 3);
  }
}

// Two pipelines leave site 0, whose uplink carries 100 B/s, at once: 100 bytes each to site 1, 0.1 s away,
// and to site 2, 0.3 s away. Alike they take 2 s; by round trip the first gets three quarters, and is there 2
// − 4/3 s earlier. Its second device computes at a quarter of the speed, so that all wait for it.
TEST_CASE("how much it moves an iteration by what flows share") {
  Problem problem{flat_topology({2, 1, 1}, link_of(0, 1e18), link_of(0.1, 1e18)), chain_job(2, 0, 100), {}};
  auto& rules = std::get<RuleLinks>(problem.topology.links);
  rules.links.push_back(link_of(0.3, 1e18));
  rules.table.mutable_matrix()(0, 2) = rules.table.mutable_matrix()(2, 0) = 2;
  problem.topology.devices[2].speed = 0.25;
  Plan plan = plan_of(problem.job, 2, 2, 1);
  plan.pipelines[0].stages[1].devices = {2};
  plan.pipelines[1].stages[0].devices = {1};
  const FairnessComparison free = compare_fairness(problem, plan).value();
  CHECK(free.equal_s == free.rtt_s);
  problem.topology.sites[0].uplink = BitsPerSecond(8 * 100);
  const FairnessComparison shared = compare_fairness(problem, plan).value();
  CHECK(shared.equal_s - shared.rtt_s == Approx(2 - 4.0 / 3).epsilon(1e-9));
  CHECK(shared.equal_s - free.equal_s == Approx(2).epsilon(1e-9));
}

TEST_CASE("a run that is stopped within an iteration has those before it") {
  // Every iteration has the same tasks: the run asks once before each, the replay at equal places within it.
  const Problem problem{flat_topology({2}, link_of(0, 100), link_of(0, 100)), chain_job(2, 0, 100), {}};
  const Plan plan = plan_of(problem.job, 2, 1, 200);
  SimOptions options;
  options.iterations = 5;
  int asked = 0;
  options.stop = [&] { return ++asked < 0; };
  const SimReport whole = simulate(problem, plan, {}, options);
  const int questions = asked / 5;  // of an iteration
  REQUIRE(questions > 3);
  asked = 0;
  options.stop = [&] { return ++asked == 2 * questions + 2; };  // the first within the third
  const SimReport cut = simulate(problem, plan, {}, options);
  CHECK(cut.stopped == "interrupted");
  REQUIRE(cut.iterations.size() == 2);
  CHECK(cut.iterations[1].end_s == whole.iterations[1].end_s);
  CHECK(cut.length_s == cut.iterations[1].end_s);
  CHECK(cut.tasks == 2 * whole.tasks / 5);
  CHECK(cut.lost_work_s == 0);

  asked = 0;
  CHECK_FALSE(compare_fairness(problem, plan, [&] { return ++asked == 2; }));
}
