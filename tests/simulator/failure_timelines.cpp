// Failure policies, checkpoints that take time, and their combined effect, with times derived by hand.
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "simulator/run/checkpoint_period.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/chain_simulation.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

using Kind = DeviceEvent::Kind;

/// Weights are 12 MB per layer.
struct Chain : ChainRun {
  Chain(int stages, int replicas, int micro_batches) : ChainRun(stages, replicas, micro_batches) {
    scenario.detection_s = 1;
  }
};

/// Writing 12 MB takes 6 s.
Checkpoint checkpoint_every(double period_s) {
  return {16e6, {}, period_s};
}

}  // namespace

TEST_CASE("a checkpoint is written after the first iteration that ends a period after the last one") {
  // Iterations of 6 s; the first to end after 10 s ends at 12. The next checkpoint is due from 18 + 10 on.
  Chain it(1, 2, 2);
  it.scenario.checkpoint = checkpoint_every(10);
  SimReport report = it.run(5);
  CHECK(iteration_times(report) == IterationTimes{0, 6, 6, 12, 18, 24, 24, 30, 36, 42});
  CHECK(report.checkpoints == 2);
  CHECK(report.rolled_back == 0);
  // The checkpoint is stored next to the device that writes it, and then next to the other one, over 1 MB/s.
  it.scenario.checkpoint->device = 0;
  CHECK(iteration_times(it.run(3)) == IterationTimes{0, 6, 6, 12, 18, 24});
  it.scenario.checkpoint->device = 1;
  CHECK(iteration_times(it.run(3)) == IterationTimes{0, 6, 6, 12, 24, 30});
  // Both devices of the single pipeline write their layers at the same time: iterations of 9 s.
  Chain two(2, 1, 2);
  two.scenario.checkpoint = checkpoint_every(9);
  CHECK(iteration_times(two.run(2)) == IterationTimes{0, 9, 15, 24});
}

TEST_CASE("an automatic period is that of Young and Daly for the failures of the plan's devices") {
  Chain it(1, 2, 2);
  it.scenario.checkpoint = checkpoint_every(0);
  it.scenario.checkpoint->is_period_automatic = true;
  const auto period_s = [&] { return young_daly_period_s(it.problem, it.plan, it.scenario); };
  CHECK(std::isinf(period_s()));
  // Failures at 40 (of both devices) and 150 in 300 s; writing takes 6 s. Device 1 is not there at first.
  it.scenario.horizon_s = 300;
  it.scenario.events = {{0, 1, Kind::leave},        {20, 1, Kind::join},   {40, 0, Kind::leave},
                        {40, 1, Kind::leave},       {60, 0, Kind::join},   {60, 1, Kind::join},
                        {100, 0, Kind::speed, 0.9}, {150, 1, Kind::leave}, {200, 1, Kind::join},
                        {400, 1, Kind::leave}};
  CHECK(period_s() == Approx(std::sqrt(2 * 6 * 300 / 2.0)));
  const SimReport automatic = it.run(1);
  it.scenario = with_checkpoint_period(it.scenario, period_s());
  CHECK(iteration_times(automatic) == iteration_times(it.run(1)));
  CHECK(automatic.checkpoints > 0);
  it.scenario.checkpoint->is_period_automatic = true;
  it.plan.pipelines.pop_back();  // device 1, which fails alone at 150
  CHECK(period_s() == Approx(std::sqrt(2 * 6 * 300)));
}

TEST_CASE("without failures an automatic period writes no checkpoint") {
  Chain it(1, 2, 2);
  it.scenario.checkpoint = checkpoint_every(0);
  it.scenario.checkpoint->is_period_automatic = true;
  const SimReport report = it.run(5);
  CHECK(iteration_times(report) == IterationTimes{0, 6, 6, 12, 12, 18, 18, 24, 24, 30});
  CHECK(report.checkpoints == 0);
}

TEST_CASE("a checkpoint aborted by a failure is written after the next iteration") {
  // Due at 12; at 14 device 1 fails, which is detected at 15. Alone, an iteration takes 12 s, until 27; then
  // 6 s of writing.
  Chain it(1, 2, 2);
  it.scenario.checkpoint = checkpoint_every(10);
  it.scenario.events = {{14, 1, Kind::leave}};
  const SimReport report = it.run(4);
  CHECK(iteration_times(report) == IterationTimes{0, 6, 6, 12, 15, 27, 33, 45});
  CHECK(report.checkpoints == 1);
  CHECK(report.lost_work_s == 0);
}

TEST_CASE("restart: all devices load the last checkpoint") {
  // It contains the first two iterations and was written by 18. At 26, in the fourth iteration, device 1
  // fails; from 27 to 33 device 0 loads, and it does the third iteration alone in 12 s. From 45 to 51 it
  // writes the next checkpoint.
  Chain it(1, 2, 2);
  it.problem.topology.edit().gpus[0].price = DollarsPerHour(3600);
  it.scenario.on_failure = FailurePolicy::restart;
  it.scenario.checkpoint = checkpoint_every(10);
  it.scenario.events = {{26, 1, Kind::leave}};
  SimReport report = it.run(4);
  CHECK(iteration_times(report) == IterationTimes{0, 6, 6, 12, 33, 45, 51, 63});
  CHECK(report.rolled_back == 1);
  CHECK(report.checkpoints == 2);
  CHECK(report.lost_work_s == Approx(2 * 6 + 2 * 2));
  CHECK(total_compute_s(report) == Approx(4 * 12 + report.lost_work_s));
  // Four sequences per iteration of 6 s; device 1 is available for 26 of 63 s, and a device costs 1 USD per
  // second.
  REQUIRE(report.useful);
  CHECK(report.useful->samples == 16);
  CHECK(report.useful->samples_per_s == Approx(16.0 / 63));
  CHECK(report.useful->optimal_samples == Approx(4.0 / 6 * (63 + 26) / 2));
  CHECK(report.useful->share_of_optimal == Approx(16 / (4.0 / 6 * 89 / 2)));
  CHECK(report.useful->usd.value() == Approx(89));
  // It rejoins at 40: after the iteration and the checkpoint, it fetches from device 0.
  it.scenario.events.push_back({40, 1, Kind::join});
  report = it.run(4);
  CHECK(iteration_times(report) == IterationTimes{0, 6, 6, 12, 33, 45, 63, 69});
  CHECK(report.useful->usd_egress == 0);
  std::get<RuleLinks>(it.problem.topology.edit().links).links[0].egress = DollarsPerByte(1e-6);
  report = it.run(4);
  CHECK(report.useful->usd_egress == Approx(12));
  CHECK(report.useful->usd.value() == Approx(69 + 26 + 29 + 12));
  it.problem.topology.edit().gpus[0].price.reset();
  CHECK_FALSE(it.run(4).useful->usd);
}

TEST_CASE("restart without a period loads the last iteration and without a checkpoint ends the run") {
  Chain it(1, 2, 2);
  it.scenario.on_failure = FailurePolicy::restart;
  it.scenario.events = {{8, 1, Kind::leave}};
  CHECK_THAT(it.run(2).stopped, contains("loads the last checkpoint, but the scenario has none"));
  it.scenario.checkpoint = checkpoint_every(0);
  const SimReport report = it.run(2);
  CHECK(iteration_times(report) == IterationTimes{0, 6, 15, 27});
  CHECK(report.rolled_back == 0);
}

TEST_CASE("before the first checkpoint a restart begins with the first iteration") {
  Chain it(1, 2, 2);
  it.scenario.on_failure = FailurePolicy::restart;
  it.scenario.checkpoint = checkpoint_every(100);
  it.scenario.events = {{8, 1, Kind::leave}};
  const SimReport report = it.run(2);
  CHECK(iteration_times(report) == IterationTimes{9, 21, 21, 33});
  CHECK(report.rolled_back == 1);
  CHECK(report.lost_work_s == Approx(12 + 4));
}

TEST_CASE("if no device has the weights the work since the checkpoint is lost under any policy") {
  // Both fail in the fourth iteration, which began at 24; the checkpoint of 18 has two. Device 1 rejoins at
  // 30 and loads until 36; at 48 it writes the next one.
  Chain it(1, 2, 2);
  it.scenario.checkpoint = checkpoint_every(10);
  it.scenario.events = {{26, 0, Kind::leave}, {26, 1, Kind::leave}, {30, 1, Kind::join}};
  const SimReport report = it.run(4);
  CHECK(iteration_times(report) == IterationTimes{0, 6, 6, 12, 36, 48, 54, 66});
  CHECK(report.rolled_back == 1);
  CHECK(report.lost_work_s == Approx(12 + 4));
}

// Iterations of 6 s, which no checkpoint follows for 100 s. Device 1 fails at 26, in the fifth one. Loading
// or writing the checkpoint takes 6 s, an iteration of device 0 alone 12 s.
TEST_CASE("restart: after a warning a checkpoint is written, so that no completed iteration is lost") {
  Chain it(1, 2, 2);
  it.scenario.on_failure = FailurePolicy::restart;
  it.scenario.checkpoint = checkpoint_every(100);
  it.scenario.events = {{26, 1, Kind::leave}};
  CHECK(it.run(5).rolled_back == 4);
  // Known at 14: the third iteration ends at 18, the checkpoint at 24. The failure needs no detection.
  it.scenario.events[0].warning_s = 12;
  SimReport report = it.run(4);
  CHECK(iteration_times(report) == IterationTimes{0, 6, 6, 12, 12, 18, 32, 44});
  CHECK(report.checkpoints == 1);
  CHECK(report.rolled_back == 0);
  CHECK(report.lost_work_s == Approx(2 * 2));
  // Known from the start: the checkpoint has the first iteration; the third, from 18 on, ends at 24.
  it.scenario.events[0].warning_s = 1000;
  report = it.run(4);
  CHECK(iteration_times(report) == IterationTimes{0, 6, 32, 44, 44, 56, 56, 68});
  CHECK(report.rolled_back == 2);
  // Known at 21: the fourth iteration ends at 24, and the checkpoint would end at 30.
  it.scenario.events[0].warning_s = 5;
  report = it.run(5);
  CHECK(iteration_times(report) == IterationTimes{26, 38, 38, 50, 50, 62, 62, 74, 74, 86});
  CHECK(report.checkpoints == 0);
  CHECK(report.rolled_back == 4);
  // Known at 25: the fifth iteration does not end before 26.
  it.scenario.events[0].warning_s = 1;
  CHECK(it.run(5).rolled_back == 4);
  // A warning from before a device joins counts from then on: it joins at 33, waits for the iteration until
  // 44, and fetches 12 MB over 1 MB/s until 56. After the iteration until 62, the checkpoint ends at 68,
  // before it leaves at 70, in the next one.
  it.scenario.events[0].warning_s = 12;
  it.scenario.events.push_back({33, 1, Kind::join});
  it.scenario.events.push_back({70, 1, Kind::leave, 1, 1000});
  report = it.run(5);
  CHECK(iteration_times(report) == IterationTimes{0, 6, 6, 12, 12, 18, 32, 44, 56, 62});
  CHECK(it.run(6).iterations.back().start_s == Approx(76));
  CHECK(it.run(6).rolled_back == 0);
}

TEST_CASE("after a warning only a checkpoint is written that will be loaded") {
  // Device 0 has the weights, too: no checkpoint, and from 26 on it computes alone.
  Chain it(1, 2, 2);
  it.scenario.checkpoint = checkpoint_every(100);
  it.scenario.events = {{26, 1, Kind::leave, 1, 12}};
  SimReport report = it.run(5);
  CHECK(iteration_times(report) == IterationTimes{0, 6, 6, 12, 12, 18, 18, 24, 26, 38});
  CHECK(report.checkpoints == 0);
  // It leaves, too: a checkpoint from 18 to 24. Device 1 rejoins at 30 and loads until 36.
  it.scenario.events = {{26, 0, Kind::leave, 1, 12}, {26, 1, Kind::leave, 1, 12}, {30, 1, Kind::join}};
  report = it.run(4);
  CHECK(iteration_times(report) == IterationTimes{0, 6, 6, 12, 12, 18, 36, 48});
  CHECK(report.checkpoints == 1);
  CHECK(report.rolled_back == 0);
  // Under `wait`, the second stage of the only pipeline: iterations of 9 s, known at 14, a checkpoint from 18
  // to 24, loaded from 30 to 36.
  Chain two(2, 1, 2);
  two.scenario.on_failure = FailurePolicy::wait;
  two.scenario.checkpoint = checkpoint_every(100);
  two.scenario.events = {{26, 1, Kind::leave, 1, 12}, {30, 1, Kind::join}};
  CHECK(iteration_times(two.run(3)) == IterationTimes{0, 9, 9, 18, 36, 45});
}

// A tenth of the times of a job on 16 spot instances: three micro-batches of 3 s on each, messages and
// checkpoints without size, a checkpoint every 90 s. Device 15 fails at 179.5, in the 20th iteration. Then
// there are four micro-batches.
TEST_CASE("a warning of twelve seconds saves nine iterations") {
  Chain it(1, 16, 3);
  it.problem.job.model = chain_job(1, 1e-3, 0).model;
  it.scenario.horizon_s = 500;
  it.scenario.detection_s = 0;
  it.scenario.on_failure = FailurePolicy::restart;
  it.scenario.checkpoint = checkpoint_every(90);
  it.scenario.events = {{179.5, 15, Kind::leave}, {179.6, 15, Kind::join}};
  // Back to the 10 iterations of 90 s; one until 191.5, and (500 - 191.5) / 9 = 34.3.
  SimReport report = it.run(1);
  CHECK(report.iterations.size() == 10 + 1 + 34);
  CHECK(report.rolled_back == 9);
  // Known at 167.5, so that the checkpoint of 171 has all 19.
  it.scenario.events[0].warning_s = 12;
  report = it.run(1);
  CHECK(report.iterations.size() == 19 + 1 + 34);
  CHECK(report.rolled_back == 0);
  // It does not rejoin: (500 - 179.5) / 12 = 26.7.
  it.scenario.events.pop_back();
  report = it.run(1);
  CHECK(report.iterations.size() == 19 + 26);
  CHECK(report.rolled_back == 0);
}

TEST_CASE("redundant: the device of the next stage computes both stages") {
  // Three stages, two micro-batches: (2 + 2) · 3 s. At 14 device 1 fails; from 15 on device 2 computes 4
  // forward passes from 1 to 5 and 4 backward passes from 5 to 13, and device 0 the last backward pass until
  // 15.
  Chain it(3, 1, 2);
  it.scenario.on_failure = FailurePolicy::redundant;
  it.scenario.events = {{14, 1, Kind::leave}};
  CHECK(iteration_times(it.run(3)) == IterationTimes{0, 12, 15, 30, 30, 45});
  // It rejoins at 35: at 45 it fetches its layer from device 2 and the copy of layer 0 from device 0.
  it.scenario.events.push_back({35, 1, Kind::join});
  SimReport report = it.run(4);
  CHECK(iteration_times(report) == IterationTimes{0, 12, 15, 30, 30, 45, 57, 69});
  REQUIRE(report.devices.size() == 3);
  CHECK(report.devices[0].sending_s == Approx(12));
  CHECK(report.devices[2].sending_s == Approx(12));
  // The copies are weights and optimizer state of one layer on every device.
  const double with = report.devices[0].peak_memory_bytes;
  it.scenario.on_failure = FailurePolicy::wait;
  report = it.run(2);
  CHECK(with == Approx(report.devices[0].peak_memory_bytes + 12e6));
}

TEST_CASE("redundant: the copy of the last stage is on the first device") {
  // Device 0 does whatever is ready first: both forward passes of stage 2 end at 4, its backward passes at 8,
  // those of device 1 at 10, and the last backward pass at 12, as long as with device 2.
  Chain it(3, 1, 2);
  it.scenario.on_failure = FailurePolicy::redundant;
  it.scenario.events = {{14, 2, Kind::leave}};
  CHECK(iteration_times(it.run(2)) == IterationTimes{0, 12, 15, 27});
}

TEST_CASE("redundant: two adjacent failures cannot be tolerated") {
  Chain it(3, 1, 2);
  it.scenario.on_failure = FailurePolicy::redundant;
  it.scenario.events = {{14, 1, Kind::leave}, {14, 2, Kind::leave}, {20, 1, Kind::join}, {43, 2, Kind::join}};
  CHECK_THAT(it.run(2).stopped, contains("no available device has the weights of layers 1 to 1"));
  // From 20 on device 0 can compute the last stage. Device 1 loads its layer in 6 s and fetches the copy of
  // layer 0 in 12 s; then as above. At 44 device 2 fetches its layer and its copy.
  it.scenario.checkpoint = checkpoint_every(0);
  CHECK(iteration_times(it.run(3)) == IterationTimes{0, 12, 32, 44, 56, 68});
}

TEST_CASE("redundant: with one stage or several stages per device there is no next stage") {
  Chain it(1, 2, 2);
  it.scenario.on_failure = FailurePolicy::redundant;
  it.scenario.events = {{8, 1, Kind::leave}};
  CHECK(iteration_times(it.run(2)) == IterationTimes{0, 6, 9, 21});
  it.plan.execution.schedule = it.problem.job.execution.schedule = Schedule::interleaved;
  CHECK_THAT(error_message([&] { it.run(1); }), contains("policy redundant"));
}

TEST_CASE("spare: a spare without enough memory is not used") {
  // A stage has 16 MB of state and two micro-batches of 100 bytes. Device 2 has one byte less than that.
  Chain it(1, 2, 2);
  it.problem.topology = flat_topology({4}, link_of(0, 1e6), link_of(0, 1e6));
  Topology& topology = it.problem.topology.edit();
  topology.gpus.push_back(topology.gpus[0]);
  topology.gpus[1].name = "small";
  topology.gpus[1].memory = Bytes(16e6 + 2 * 100 - 1);
  topology.devices[2].gpu = 1;
  it.scenario.on_failure = FailurePolicy::spare;
  it.scenario.events = {{8, 1, Kind::leave}};
  // Device 3 fetches 12 MB over 1 MB/s.
  SimReport report = it.run(2);
  CHECK(iteration_times(report) == IterationTimes{0, 6, 21, 27});
  REQUIRE(report.devices.size() == 3);
  CHECK(report.devices[2].device == 3);
  CHECK(report.out_of_memory.empty());
  // If there is no other spare, device 0 computes all micro-batches.
  it.scenario.spares = {2};
  report = it.run(2);
  CHECK(iteration_times(report) == IterationTimes{0, 6, 9, 21});
  CHECK(report.devices.size() == 2);
  // With one byte more, device 2 is used.
  it.problem.topology.edit().gpus[1].memory = Bytes(16e6 + 2 * 100);
  report = it.run(2);
  CHECK(iteration_times(report) == IterationTimes{0, 6, 21, 27});
  CHECK(report.out_of_memory.empty());
  // A plan that exceeds the memory of its own devices also runs on others of the same kind.
  it.problem.topology.edit().gpus[0].memory = Bytes(1e6);
  it.scenario.spares = {3};
  CHECK(iteration_times(it.run(2)) == IterationTimes{0, 6, 21, 27});
}

TEST_CASE("spare: failed devices get spares with enough memory for their stages") {
  // The first stage has two layers and 32 MB of state, the second one layer and 16 MB. Both devices fail in
  // the first iteration, so that nothing is fetched. Device 2 has memory for one layer only.
  ChainRun it(3, 1, 1);
  it.problem.topology = flat_topology({4}, link_of(0, 1e6), link_of(0, 1e6));
  it.plan.pipelines = {{1, {{{0, 2}, {0}}, {{2, 3}, {1}}}}};
  Topology& topology = it.problem.topology.edit();
  topology.gpus.push_back(topology.gpus[0]);
  topology.gpus[1].name = "small";
  topology.gpus[1].memory = Bytes(17e6);
  topology.devices[2].gpu = 1;
  it.scenario.on_failure = FailurePolicy::spare;
  it.scenario.events = {{1, 0, Kind::leave}, {1, 1, Kind::leave}};
  const SimReport report = it.run(1);
  // One micro-batch takes 3 s on each of three layers.
  CHECK(iteration_times(report) == IterationTimes{1, 10});
  REQUIRE(report.devices.size() == 4);
  CHECK(report.devices[2].compute_s == Approx(3));
  CHECK(report.devices[3].compute_s == Approx(6));
  CHECK(report.out_of_memory.empty());
  // The same if the smaller stage comes first and the larger spare is preferred.
  it.plan.pipelines = {{1, {{{0, 1}, {0}}, {{1, 3}, {1}}}}};
  it.scenario.spares = {3, 2};
  const SimReport reversed = it.run(1);
  CHECK(iteration_times(reversed) == IterationTimes{1, 10});
  CHECK(reversed.devices[2].compute_s == Approx(3));
  CHECK(reversed.devices[3].compute_s == Approx(6));
}

TEST_CASE("replan: the caller's plan is adopted and its migration takes time") {
  // A pipeline of two stages and three micro-batches: (3 + 1) · 3 s. At 14 device 1 fails; from 15 on device
  // 0 has all layers, 18 s per iteration, and must load layer 1.
  Chain it(2, 1, 3);
  it.problem.topology = flat_topology({3}, link_of(0, 1e6), link_of(0, 1e6));
  it.scenario.on_failure = FailurePolicy::replan;
  it.scenario.events = {{14, 1, Kind::leave}};
  CHECK_THAT(error_message([&] { it.run(1); }), contains("policy replan requires a planner"));
  SimOptions options;
  options.iterations = 2;
  int asked = 0;
  Plan next = it.plan;
  next.pipelines[0].stages = {{{0, 2}, {0}}};
  options.replan = [&](const Plan& running, const std::vector<bool>& there) -> std::optional<Plan> {
    ++asked;
    CHECK(running == it.plan);
    CHECK(there == std::vector<bool>{true, false, true});
    return next;
  };
  CHECK_THAT(simulate(it.problem, it.plan, it.scenario, options).stopped,
             contains("no available device has the weights of layers 1 to 1"));
  it.scenario.checkpoint = checkpoint_every(0);
  CHECK(iteration_times(simulate(it.problem, it.plan, it.scenario, options)) ==
        IterationTimes{0, 12, 21, 39});
  CHECK(asked == 2);
  // The other way round: layer 0 is fetched from device 0 in 12 s, while device 2 loads layer 1 in 6 s.
  next.pipelines[0].stages = {{{0, 1}, {2}}, {{1, 2}, {0}}};
  const SimReport report = simulate(it.problem, it.plan, it.scenario, options);
  CHECK(iteration_times(report) == IterationTimes{0, 12, 27, 39});
  CHECK(report.devices.size() == 3);
  // Deeper than the previous plan, and on a device that has failed.
  next.pipelines[0].stages = {{{0, 1}, {0}}, {{1, 1}, {2}}, {{1, 2}, {1}}};
  CHECK_THAT(error_message([&] { simulate(it.problem, it.plan, it.scenario, options); }),
             contains("unavailable devices"));
  // No plan: the default behaviour.
  options.replan = [](const Plan&, const std::vector<bool>&) { return std::nullopt; };
  CHECK_THAT(simulate(it.problem, it.plan, it.scenario, options).stopped,
             contains("no device joins any more"));
}

TEST_CASE("replan: a plan that differs in its flushes only is adopted") {
  // Four micro-batches on two stages take (4 + 1) · 3 s, and in two rounds of two (2 + 1) · 3 s each. At 16
  // device 2 leaves, which has no stage. The planner is asked at the end of the iteration.
  Chain it(2, 1, 4);
  it.problem.topology = flat_topology({3}, link_of(0, 1e6), link_of(0, 1e6));
  it.scenario.on_failure = FailurePolicy::replan;
  it.scenario.events = {{16, 2, Kind::leave}};
  SimOptions options;
  options.iterations = 3;
  options.replan = [&](const Plan& running, const std::vector<bool>&) {
    Plan next = running;
    next.execution.flush = 2;
    return std::optional(next);
  };
  const SimReport report = simulate(it.problem, it.plan, it.scenario, options);
  CHECK(iteration_times(report) == IterationTimes{0, 15, 15, 30, 30, 48});
  CHECK(report.lost_work_s == 0);
}

// Forward, input gradients and weight gradients of a micro-batch take 1 s each:
//   first stage:  F0 F1 ·  B0 W0 B1 W1
//   second stage: ·  F0 B0 F1 B1 W0 W1
TEST_CASE("zb-h1: an iteration that a failure aborts during weight gradients is repeated") {
  // At 7 + 5.5 every device has computed for 4.5 s, and device 3, which fails, is half-way through its first
  // weight gradients. Alone, pipeline 0 takes 3 · 4 + 1 s for four micro-batches.
  Chain it(2, 2, 2);
  it.problem.topology = flat_topology({5}, link_of(0, 1e6), link_of(0, 1e6));
  it.plan.execution.schedule = it.problem.job.execution.schedule = Schedule::zero_bubble_h1;
  it.scenario.events = {{12.5, 3, Kind::leave}};
  const auto check = [&](FailurePolicy policy, const IterationTimes& times, double compute_s) {
    CAPTURE(std::string(name_of(policy)));
    it.scenario.on_failure = policy;
    const SimReport report = it.run(2);
    CHECK(iteration_times(report) == times);
    CHECK(report.lost_work_s == Approx(4 * 4.5));
    CHECK(total_compute_s(report) == Approx(compute_s));
  };
  // Both iterations compute 3 s for each of four micro-batches on two stages.
  const double all_s = 2 * 4 * 2 * 3 + 4 * 4.5;
  check(FailurePolicy::restart_without_pipeline, {0, 7, 13.5, 26.5}, all_s);
  // The spare device 4 fetches 12 MB over 1 MB/s.
  check(FailurePolicy::spare, {0, 7, 25.5, 32.5}, all_s);
  // Device 2 has a copy of the weights of stage 1, and computes two micro-batches of both stages in 12 s.
  check(FailurePolicy::redundant, {0, 7, 13.5, 25.5}, all_s);
  // The devices of pipeline 0 load the checkpoint in 6 s.
  it.scenario.checkpoint = checkpoint_every(0);
  check(FailurePolicy::restart, {0, 7, 19.5, 32.5}, all_s);
  // Device 3 rejoins at 20 and fetches from device 1.
  it.scenario.checkpoint.reset();
  it.scenario.events.push_back({20, 3, Kind::join});
  check(FailurePolicy::wait, {0, 7, 32, 39}, all_s);
}

TEST_CASE("zb-h1: an iteration that a failure aborts between the parts of a backward pass is repeated") {
  // At 7 + 3.5 the second stages have the input gradients of the first micro-batch, but not yet its weight
  // gradients. Every device has computed for 2.5 s.
  Chain it(2, 2, 2);
  it.plan.execution.schedule = it.problem.job.execution.schedule = Schedule::zero_bubble_h1;
  it.scenario.events = {{10.5, 3, Kind::leave}};
  const SimReport report = it.run(2);
  CHECK(iteration_times(report) == IterationTimes{0, 7, 11.5, 24.5});
  CHECK(report.lost_work_s == Approx(4 * 2.5));
  CHECK(total_compute_s(report) == Approx(2 * 4 * 2 * 3 + 4 * 2.5));
}

TEST_CASE("a pipeline with a slow device is excluded until it has recovered") {
  // At 8 device 1 has done 2 s of 6, and computes the rest at 0.4 of its speed, until 18. Then device 0 does
  // everything in 12 s. At 20 device 1 has its full speed again; it fetches from 30 to 42.
  Chain it(1, 2, 2);
  it.scenario.exclude_slower_than = 0.5;
  it.scenario.events = {{8, 1, Kind::speed, 0.4}, {20, 1, Kind::speed, 1}};
  const SimReport report = it.run(4);
  CHECK(iteration_times(report) == IterationTimes{0, 6, 6, 18, 18, 30, 42, 48});
  CHECK(report.lost_work_s == 0);
  CHECK(report.useful);
  // Half as fast is not less than half; and if all devices are slow, none is excluded.
  it.scenario.events = {{6, 1, Kind::speed, 0.5}};
  CHECK(iteration_times(it.run(3)) == IterationTimes{0, 6, 6, 18, 18, 30});
  it.scenario.events = {{6, 0, Kind::speed, 0.4}, {6, 1, Kind::speed, 0.4}};
  CHECK(iteration_times(it.run(3)) == IterationTimes{0, 6, 6, 21, 21, 36});
  // Each of two pipelines has a slow device: both continue.
  Chain two(3, 2, 1);
  two.scenario.exclude_slower_than = 0.5;
  two.scenario.events = {{0, 0, Kind::speed, 0.25}, {0, 3, Kind::speed, 0.25}};
  // (1 + 2) · 4 s of the first stage and 6 s of the two others.
  CHECK(iteration_times(two.run(2)) == IterationTimes{0, 18, 18, 36});
}
