// Memory of the devices: how long the activations of a micro-batch are held, with times derived by hand, and
// the peak.
#include "simulator/report/memory_use.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "simulator/report/stage_memory.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/chain_simulation.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

using Kind = DeviceEvent::Kind;
using Step = std::tuple<double, int, double>;  // s, device, micro-batches

/// Counts micro-batches instead of bytes.
StageMemory one_per_micro_batch(int, int) {
  return {0, 1, 0};
}

/// Records the memory steps of every interval in micro-batches, at times in whole microseconds.
class StepRecorder : public RunObserver {
 public:
  void on_interval(const RunInterval& run_interval) override {
    std::vector<Step>& steps = intervals.emplace_back();
    for (const MemoryStep& step : memory_steps(run_interval, one_per_micro_batch))
      steps.emplace_back(std::round(step.date * 1e6) / 1e6, step.device, step.bytes);
  }
  std::vector<std::vector<Step>> intervals;
};

std::vector<std::vector<Step>> steps_of(const ChainRun& it, int iterations) {
  StepRecorder recorder;
  SimOptions options;
  options.iterations = iterations;
  options.observers = {&recorder};
  simulate(it.problem, it.plan, it.scenario, options);
  return recorder.intervals;
}

struct Chain : ChainRun {
  Chain(int stages, int replicas, int micro_batches, Schedule schedule)
      : ChainRun(stages, replicas, micro_batches) {
    plan.execution.schedule = problem.job.execution.schedule = schedule;
  }
};

}  // namespace

TEST_CASE("under zb-h1 every device holds as many micro-batches as there are stages") {
  for (const int p : {1, 2, 3, 5})
    for (const int m : {1, 2, 3, 4, 12}) {
      CAPTURE(p, m);
      const std::vector<Step> steps = steps_of(Chain(p, 1, m, Schedule::zero_bubble_h1), 1).front();
      std::vector<double> peaks(at(p));
      for (const auto& [date, device, held] : steps) peaks[at(device)] = std::max(peaks[at(device)], held);
      CHECK(peaks == std::vector<double>(at(p), std::min(m, p)));
      for (int d = 0; d < p; ++d) CHECK(zero_bubble_h1_in_flight({p, d, 1, m}) == peaks[at(d)]);
    }
}

// F, B and W take 1 s each:
//   device 0: F0 F1 ·  B0 W0 B1 W1
//   device 1: ·  F0 B0 F1 B1 W0 W1
TEST_CASE("zb-h1 frees the activations of a micro-batch after its weight gradients") {
  const Chain it(2, 1, 2, Schedule::zero_bubble_h1);
  CHECK(steps_of(it, 1).front() ==
        std::vector<Step>{
            {0, 0, 1}, {1, 0, 2}, {1, 1, 1}, {3, 1, 2}, {5, 0, 1}, {6, 1, 1}, {7, 0, 0}, {7, 1, 0}});
  // 100 bytes per micro-batch, and 16 bytes for each of a million parameters.
  for (const DeviceReport& device : it.run(1).devices) CHECK(device.peak_memory_bytes == 16e6 + 2 * 100);
}

TEST_CASE("activations are held to the end of an interval that ends before the weight gradients") {
  // At 3.5 device 1 has the input gradients of micro-batch 0, but not yet its weight gradients, and has begun
  // micro-batch 1.
  Chain it(2, 1, 2, Schedule::zero_bubble_h1);
  it.scenario.horizon_s = 3.5;
  CHECK(steps_of(it, 1).front() ==
        std::vector<Step>{{0, 0, 1}, {1, 0, 2}, {1, 1, 1}, {3, 1, 2}, {3.5, 0, 0}, {3.5, 1, 0}});
  for (const DeviceReport& device : it.run(1).devices) CHECK(device.peak_memory_bytes == 16e6 + 2 * 100);
}

TEST_CASE("a resumed iteration starts with the micro-batches that its devices hold") {
  // The second iteration begins at 7, in two pipelines. At 10.5 device 3 fails, and devices 0 and 1 continue
  // with four micro-batches. Seconds after 7:
  //   device 0: B0 –4, W0 –5, F2 –6, B1 –7, W1 –8, F3 –9, B2 –10, W2 –11, B3 –12, W3 –13
  //   device 1: F1 –4, B1 –5, W0 –6, F2 –7, B2 –8, W1 –9, F3 –10, B3 –11, W2 –12, W3 –13
  Chain it(2, 2, 2, Schedule::zero_bubble_h1);
  it.scenario.on_failure = FailurePolicy::drop_pipeline;
  it.scenario.events = {{10.5, 3, Kind::leave}};
  std::vector<std::vector<Step>> intervals = steps_of(it, 2);
  REQUIRE(intervals.size() == 3);
  CHECK(intervals[2] ==
        std::vector<Step>{{10.5, 0, 2}, {10.5, 1, 2}, {18, 0, 1}, {19, 1, 1}, {20, 0, 0}, {20, 1, 0}});
  // Under gpipe all forward passes of the second iteration have ended at 9 + 3. Until the failure is detected
  // at 13.5, device 0 waits for the first backward pass of device 1, from 12 to 14.
  Chain gpipe(2, 2, 2, Schedule::gpipe);
  gpipe.scenario.on_failure = FailurePolicy::drop_pipeline;
  gpipe.scenario.detection_s = 1;
  gpipe.scenario.events = {{12.5, 3, Kind::leave}};
  intervals = steps_of(gpipe, 2);
  REQUIRE(intervals.size() == 4);
  CHECK(intervals[2] == std::vector<Step>{{12.5, 0, 2}, {12.5, 1, 2}, {13.5, 0, 0}, {13.5, 1, 0}});
}

TEST_CASE("the required memory of every schedule is the peak of a simulated iteration") {
  // Layers of a million parameters, with outputs of 50 and activations of 100 bytes.
  for (const ScheduleTraits& schedule : schedule_table())
    for (const auto recomputation : {Recomputation::none, Recomputation::full})
      for (const std::optional<int> flush : {std::optional<int>(), std::optional(2)}) {
        if (!schedule.in_jobs) continue;
        CAPTURE(std::string(schedule.name), recomputation, flush.value_or(0));
        Problem problem{flat_topology({5}, link_of(0.1, 1e6), link_of(0, 1)), chain_job(8, 1e6, 50), {}};
        ExecutionConfig& execution = problem.job.execution;
        execution.schedule = schedule.kind;
        execution.recomputation = recomputation;
        execution.flush = flush;
        if (schedule.has_chunks) execution.chunks = 2;
        Plan plan = plan_of(problem.job, 2, 2, 6);
        plan.pipelines[1].micro_batches = 2;
        const SimReport report = simulate(problem, plan, {}, {});
        const std::vector<double> required = required_memory(problem, plan);
        REQUIRE(report.devices.size() == 4);
        REQUIRE(required.size() == 5);
        for (const DeviceReport& device : report.devices)
          CHECK(required[at(device.device)] == Approx(device.peak_memory_bytes).epsilon(1e-12));
        CHECK(required[4] == 0);
      }
}

TEST_CASE("gpipe requires memory for all micro-batches between two flushes and zb-h1 for one per stage") {
  // 16 bytes for each of a million parameters, and 100 bytes per micro-batch.
  Chain it(3, 1, 5, Schedule::gpipe);
  CHECK(required_memory(it.problem, it.plan) == std::vector<double>(3, 16e6 + 5 * 100));
  it.plan.execution.flush = 4;
  CHECK(required_memory(it.problem, it.plan) == std::vector<double>(3, 16e6 + 4 * 100));
  it.plan.execution.flush.reset();
  it.plan.execution.schedule = Schedule::one_f_one_b;
  CHECK(required_memory(it.problem, it.plan) == std::vector<double>{16e6 + 300, 16e6 + 200, 16e6 + 100});
  it.plan.execution.schedule = Schedule::zero_bubble_h1;
  CHECK(required_memory(it.problem, it.plan) == std::vector<double>(3, 16e6 + 300));
}
