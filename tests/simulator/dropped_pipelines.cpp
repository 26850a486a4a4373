// Policy drop-pipeline: pipelines that are not affected continue within the iteration. Times derived by hand,
// and invariants.
#include <limits>
#include <string>
#include <vector>

#include "core/base/rng.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/chain_simulation.hpp"
#include "tests/support/repetitions.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

using Kind = DeviceEvent::Kind;

struct Chain : ChainRun {
  Chain(int stages, int replicas, int micro_batches, double output = 0)
      : ChainRun(stages, replicas, micro_batches, output) {
    scenario.on_failure = FailurePolicy::drop_pipeline;
  }
};

}  // namespace

TEST_CASE("the other pipeline continues with the micro-batches of the failed one") {
  // Iterations of 6 s, all forward passes first. At 8 both pipelines have finished theirs, and device 1
  // fails, which is detected at 9. Device 0 does its first backward pass until 10, then two forward and three
  // backward passes: 8 s.
  Chain it(1, 2, 2);
  it.scenario.detection_s = 1;
  it.scenario.events = {{8, 1, Kind::leave}};
  SimReport report = it.run(3);
  CHECK(iteration_times(report) == IterationTimes{0, 6, 6, 18, 18, 30});
  CHECK(report.lost_work_s == Approx(2));
  CHECK(total_compute_s(report) == Approx(3 * 12 + 2));
  // With late detection, it has finished its own work at 12 and is idle until 16.
  it.scenario.detection_s = 8;
  CHECK(iteration_times(it.run(2)) == IterationTimes{0, 6, 6, 22});
  // The device rejoins within the iteration: the weights are fetched afterwards, 12 MB over 1 MB/s.
  it.scenario.detection_s = 1;
  it.scenario.events.push_back({8.5, 1, Kind::join});
  CHECK(iteration_times(it.run(3)) == IterationTimes{0, 6, 6, 18, 30, 36});
}

TEST_CASE("stages continue in the order of the schedule") {
  // One micro-batch of two stages: 6 s. At 8.5 the last stage of pipeline 1 fails, which is detected at 9.5.
  // Stage 0 does the forward pass of the new micro-batch until 10.5, then the backward pass whose message
  // arrived at 10, until 12.5. Stage 1 does the forward pass from 10.5 and the backward pass from 11.5 to
  // 13.5, and stage 0 the last one until 15.5.
  Chain it(2, 2, 1);
  it.scenario.detection_s = 1;
  it.scenario.events = {{8.5, 3, Kind::leave}};
  const SimReport report = it.run(2);
  CHECK(iteration_times(report) == IterationTimes{0, 6, 6, 15.5});
  CHECK(report.lost_work_s == Approx(1 + 1 + 0.5));
}

TEST_CASE("a message in transit continues with its remaining bytes") {
  // Messages of 3 s: 1 + 3 + 1 + 2 + 3 + 2 = 12 s. At 14 a third of the first message has been sent; it
  // arrives at 16. The new micro-batch is sent from 16 to 19, its forward pass ends at 20, the backward
  // passes of stage 1 at 22 and 24, their messages at 25 and 28, and the last backward pass at 30.
  Chain it(2, 2, 1, 3e6);
  it.scenario.events = {{14, 3, Kind::leave}};
  const SimReport report = it.run(2);
  CHECK(iteration_times(report) == IterationTimes{0, 12, 12, 30});
  // In transit after its last byte has been sent, with 0.5 s of latency left.
  Chain far(2, 2, 1, 3e6);
  std::get<RuleLinks>(far.problem.topology.edit().links).links[0].latency = Seconds(1);
  // 1 + 4 + 1 + 2 + 4 + 2 = 14 s, plus 2 s of an empty synchronization. The first message is sent from 17 to
  // 20 and arrives at 21. The second is sent from 21.5 to 24.5 and arrives at 25.5; forward until 26.5,
  // backward until 28.5 and 30.5, whose messages arrive at 32.5 and 35.5; the last backward pass ends at
  // 37.5.
  far.scenario.events = {{20.5, 3, Kind::leave}};
  CHECK(iteration_times(far.run(2)) == IterationTimes{0, 16, 16, 37.5});
}

TEST_CASE("several devices can fail one after the other") {
  // At 8 all have done their forward passes, and device 2 fails: each of the others gets one more
  // micro-batch. At 10 device 1 fails: the last device does six of 3 s without a pause, from 6 to 24.
  Chain it(1, 3, 2);
  it.scenario.events = {{8, 2, Kind::leave}, {10, 1, Kind::leave}};
  SimReport report = it.run(2);
  CHECK(iteration_times(report) == IterationTimes{0, 6, 6, 24});
  CHECK(report.lost_work_s == Approx(2 + 4));
  // The second device fails before the failure of the first is detected.
  it.scenario.detection_s = 3;
  report = it.run(2);
  CHECK(iteration_times(report) == IterationTimes{0, 6, 6, 25});  // idle from 12 to 13
  CHECK(report.lost_work_s == Approx(2 + 4));
  // All devices fail: the iteration is lost.
  it.scenario.events.push_back({10.5, 0, Kind::leave});
  report = it.run(2);
  CHECK(iteration_times(report) == IterationTimes{0, 6});
  CHECK(report.lost_work_s == Approx(2 + 4 + 4.5));
}

TEST_CASE("a synchronization in progress restarts and an optimizer step continues") {
  Chain it(1, 2, 2);
  it.plan.execution.compression.gradients = 1;
  const double sync_s = it.run(1).length_s - 6;
  REQUIRE(sync_s > 1);
  // Of two pipelines one remains, with two more micro-batches: 6 s.
  const double failure_s = 6 + sync_s + 6 + sync_s / 2;
  it.scenario.events = {{failure_s, 1, Kind::leave}};
  SimReport report = it.run(2);
  CHECK(report.iterations[1].end_s == Approx(failure_s + 6));
  CHECK(report.lost_work_s == Approx(6));
  // During the overhead at the end of an iteration no device is needed.
  Chain ends(1, 2, 2);
  ends.problem.constants.iteration_overhead_s = 2;
  ends.scenario.detection_s = 2;
  ends.scenario.events = {{15, 1, Kind::leave}};
  report = ends.run(3);
  CHECK(iteration_times(report) == IterationTimes{0, 8, 8, 16, 17, 31});
  CHECK(report.lost_work_s == 0);
}

TEST_CASE("slowed computations and layer-wise backward passes keep their progress") {
  // At half speed from 7 on, half of the second forward pass is done at 8, and all of it at 9. Two more until
  // 13, four backward passes of 4 s until 29.
  Chain it(1, 2, 2);
  it.scenario.events = {{7, 0, Kind::speed, 0.5}, {8, 1, Kind::leave}};
  CHECK(iteration_times(it.run(2)) == IterationTimes{0, 6, 6, 29});
  // A stage of two layers with overlapped synchronization: a micro-batch is 2 + 4 s. At 11 a quarter of the
  // second backward pass is done, half of a layer. Device 0 has 3 s of it left, and two micro-batches.
  Chain layered(1, 2, 2);
  layered.problem.job = chain_job(2, 1e6, 0);
  layered.problem.job.execution.compression.gradients = 0;
  layered.problem.job.execution.overlap = true;
  layered.plan = plan_of(layered.problem.job, 1, 2, 2);
  layered.scenario.events = {{12 + 9, 1, Kind::leave}};
  CHECK(iteration_times(layered.run(2)) == IterationTimes{0, 12, 12, 36});
}

// Forward, input gradients and weight gradients of a micro-batch take 1 s each:
//   first stage:  F0 F1 ·  B0 W0 B1 W1
//   second stage: ·  F0 B0 F1 B1 W0 W1
TEST_CASE("zb-h1: finished weight gradients are kept and missing ones are computed") {
  // At 7 + 3.5 pipeline 1 has computed 2 · 2.5 s. The second stage of pipeline 0 has the input gradients of
  // micro-batch 0, but not its weight gradients. With two more micro-batches it needs 13 s, as if it had had
  // four from the start:
  //   first stage:  B0 –4, W0 –5, F2 –6, B1 –7, W1 –8, F3 –9, B2 –10, W2 –11, B3 –12, W3 –13
  //   second stage: F1 –4, B1 –5, W0 –6, F2 –7, B2 –8, W1 –9, F3 –10, B3 –11, W2 –12, W3 –13
  Chain it(2, 2, 2);
  it.plan.execution.schedule = it.problem.job.execution.schedule = Schedule::zero_bubble_h1;
  it.scenario.events = {{10.5, 3, Kind::leave}};
  SimReport report = it.run(2);
  CHECK(iteration_times(report) == IterationTimes{0, 7, 7, 20});
  CHECK(report.lost_work_s == Approx(2 * 2.5));
  CHECK(total_compute_s(report) == Approx(2 * 4 * 2 * 3 + 2 * 2.5));
  // The failure at 7 + 5.5 is detected at 7 + 6.5, when both devices of pipeline 0 are half-way through the
  // weight gradients of micro-batch 1:
  //   first stage:  W1 –7, F2 –8, F3 –9, ·  –10, B2 –11, W2 –12, B3 –13, W3 –14
  //   second stage: W1 –7, ·  –8, F2 –9, B2 –10, F3 –11, B3 –12, W2 –13, W3 –14
  it.scenario.detection_s = 1;
  it.scenario.events = {{12.5, 3, Kind::leave}};
  report = it.run(2);
  CHECK(iteration_times(report) == IterationTimes{0, 7, 7, 21});
  CHECK(report.lost_work_s == Approx(2 * 4.5));
  CHECK(total_compute_s(report) == Approx(2 * 4 * 2 * 3 + 2 * 4.5));
}

TEST_CASE("all computation is useful or lost and all micro-batches of an iteration are done") {
  for (int seed = 0; seed < repetitions(120); ++seed) {
    const FailurePolicy policies[] = {FailurePolicy::drop_pipeline, FailurePolicy::restart,
                                      FailurePolicy::redundant, FailurePolicy::restart_without_pipeline};
    const int devices = seed % 3 == 2 ? 12 : 6;
    Chain it(2, 3, 4, 2e5);
    it.scenario.on_failure = policies[seed % 4];
    it.problem.topology = flat_topology({devices}, link_of(0.01, 1e6), link_of(0, 1e6));
    it.problem.job = chain_job(4, 1e6, 2e5);
    it.problem.job.execution.overlap = seed % 16 < 8;
    it.problem.job.execution.schedule = seed % 8 < 4 ? Schedule::gpipe : Schedule::one_f_one_b;
    if (seed % 5 == 1) {
      it.problem.job.execution.schedule = Schedule::zero_bubble_h1;
    } else if (seed % 3 == 1 && it.scenario.on_failure != FailurePolicy::redundant) {
      it.problem.job.execution.schedule = Schedule::interleaved;
      it.problem.job.execution.chunks = 2;
    }
    CAPTURE(seed, it.scenario.on_failure, it.problem.job.execution.schedule);
    it.plan = plan_of(it.problem.job, 2, 3, 4);
    if (devices == 12) {  // stages of two devices
      it.plan.tensor = 2;
      for (Pipeline& pipeline : it.plan.pipelines)
        for (Stage& stage : pipeline.stages) {
          const int first = stage.devices[0];
          stage.devices = {2 * first, 2 * first + 1};
        }
    }
    Rng rng = Rng::for_task(static_cast<std::uint64_t>(seed), 6);
    it.scenario.detection_s = seed % 3;
    it.scenario.checkpoint = Checkpoint{16e6, {}, seed % 5 == 0 ? 0.0 : 60.0};
    std::vector<bool> there(at(devices), true);
    double date = 0;
    for (int i = 0; i < 60; ++i) {
      date += 30 * rng.uniform();
      const auto device = static_cast<int>(rng.below(static_cast<std::uint32_t>(devices)));
      there[at(device)] = !there[at(device)];
      it.scenario.events.push_back({date, device, there[at(device)] ? Kind::join : Kind::leave});
    }
    for (int device = 0; device < devices; ++device)
      if (!there[at(device)]) it.scenario.events.push_back({date + 1, device, Kind::join});
    const SimReport report = it.run(30);
    CHECK(report.stopped.empty());
    REQUIRE(report.iterations.size() == 30);
    // Twelve micro-batches of four layers of 3 s each.
    CHECK(total_compute_s(report) == Approx(30 * 12 * 4 * 3 + report.lost_work_s));
    for (const DeviceReport& device : report.devices)
      CHECK(device.compute_s + device.waiting_network_s + device.waiting_others_s + device.down_s ==
            Approx(report.length_s));
    CHECK(it.run(30).iterations.back().end_s == report.iterations.back().end_s);
  }
}
