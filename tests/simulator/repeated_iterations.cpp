// Identical consecutive iterations are replayed once and counted several times.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "core/base/rng.hpp"
#include "simulator/simulate.hpp"
#include "tests/support/arbitrary_plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/full_replay.hpp"
#include "tests/support/repetitions.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

/// Records every interval, and when its tasks run.
class DateRecorder : public RunObserver {
 public:
  void on_interval(const RunInterval& run_interval) override {
    numbers.push_back(run_interval.iteration);
    dates.insert(dates.end(), {run_interval.start, run_interval.end, run_interval.replay.makespan});
    for (const TaskRecord& task : run_interval.replay.tasks)
      for (const double date : {task.ready, task.start, task.finish})
        if (!std::isnan(date)) dates.push_back(date);
  }
  std::vector<int> numbers;
  std::vector<double> dates;
};

class RepetitionCounter : public RunObserver {
 public:
  void on_interval(const RunInterval& run_interval) override {
    ++calls;
    intervals += run_interval.repetitions;
  }
  bool counts_repetitions() const override { return true; }
  int calls = 0, intervals = 0;
};

struct Run {
  DateRecorder dates;
  RepetitionCounter counter;
  SimReport report;

  Run(const Problem& problem, const Plan& plan, const Scenario& scenario, SimOptions options = {}) {
    options.observers = {&dates, &counter};
    report = simulate(problem, plan, scenario, options);
  }
};

/// Devices leave, join and slow down. Some scenarios have a trace, or checkpoints with a period.
Scenario random_scenario(Rng& rng, int devices, double iteration_s) {
  using Kind = DeviceEvent::Kind;
  Scenario scenario;
  scenario.horizon_s = iteration_s * (10.37 + rng.below(40));
  scenario.detection_s = iteration_s / 3;
  constexpr FailurePolicy policies[] = {FailurePolicy::restart_without_pipeline, FailurePolicy::restart,
                                        FailurePolicy::drop_pipeline, FailurePolicy::wait,
                                        FailurePolicy::spare};
  scenario.on_failure = policies[rng.below(std::size(policies))];
  scenario.exclude_slower_than = rng.below(2) * 0.6;
  scenario.checkpoint.emplace().period_s = rng.below(2) * iteration_s * (1 + rng.below(40) / 10.0);
  if (rng.below(2) == 0) {  // repetitions begin after the last change of a trace
    const std::vector<bool> all(at(devices), true);
    scenario.link_traces = {{LinkTrace::Quantity::bandwidth, all, all, false, 0}};
    scenario.traces = {{{{0, 1}, {iteration_s * 3.3, 0.8}}, 0, true}};
  }
  double date = 0;
  for (int i = 0; i < 4; ++i) {
    const int device = static_cast<int>(rng.below(static_cast<std::uint32_t>(devices)));
    date += iteration_s * (1 + rng.below(1000)) / 99.9;  // rarely when an iteration ends
    if (rng.below(3) == 0) {
      scenario.events.push_back({date, device, Kind::speed, rng.below(2) == 0 ? 0.5 : 1});
      continue;
    }
    const double warning_s = iteration_s * rng.below(3);
    scenario.events.push_back({date, device, Kind::leave, 1, warning_s});
    date += iteration_s * (1 + rng.below(300)) / 99.9;
    scenario.events.push_back({date, device, Kind::join});
  }
  return scenario;
}

/// The numbers of a report that repetition must not change.
std::vector<double> figures(const SimReport& report) {
  std::vector<double> all = {report.length_s,
                             report.iteration_time_s.mean,
                             report.tokens_per_s,
                             report.bubble,
                             report.lost_work_s,
                             static_cast<double>(report.rolled_back),
                             static_cast<double>(report.checkpoints),
                             static_cast<double>(report.events.size()),
                             static_cast<double>(report.tasks),
                             static_cast<double>(report.flows),
                             report.useful ? report.useful->samples : 0,
                             report.useful ? report.useful->usd_egress : 0};
  for (const IterationReport& it : report.iterations) all.insert(all.end(), {it.start_s, it.end_s});
  for (const DeviceReport& it : report.devices)
    all.insert(all.end(), {it.compute_s, it.waiting_network_s, it.waiting_others_s, it.down_s, it.sending_s,
                           it.receiving_s, it.peak_memory_bytes});
  std::vector<LinkReport> links = report.links;  // those with equal bytes are in any order
  std::sort(links.begin(), links.end(), [](const LinkReport& a, const LinkReport& b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  for (const LinkReport& it : links) all.insert(all.end(), {it.bytes, it.busy_s});
  // Several paths may be equally long, so only the ends of the critical path are compared.
  if (!report.critical_path.empty())
    all.insert(all.end(), {report.critical_path.front().start_s, report.critical_path.back().end_s});
  return all;
}

/// The largest difference between corresponding elements, relative where they exceed 1.
double difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i])));
  return most;
}

}  // namespace

TEST_CASE("repeating an iteration gives the same report as replaying every iteration") {
  int compared = 0;  // runs with repetitions, with those without any
  for (std::uint64_t number = 0; number < repetitions(100); ++number) {
    INFO("problem " << number);
    Rng rng = Rng::for_task(23, number);
    const int devices = 2 + static_cast<int>(rng.below(7));
    Problem problem{random_topology(rng, devices, rng.below(2) == 0), random_chain_job(rng, 8),
                    Calibration{1, 1e-3, 0.9, 0.1}};
    set_training(rng, problem.job);
    for (Link& link : std::get<RuleLinks>(problem.topology.edit().links).links)
      link.egress = DollarsPerByte(1);
    problem.job.execution.iteration_barrier = rng.below(8) > 0;
    const Plan plan = arbitrary_plan(rng, problem, 1, true);
    const Scenario scenario = random_scenario(rng, devices, undisturbed_seconds(problem, plan));
    const Run run(problem, plan, scenario), full(problem, plan, with_full_replay(scenario, devices));
    CHECK(difference(figures(run.report), figures(full.report)) < 1e-9);
    CHECK(run.report.stopped == full.report.stopped);
    CHECK(run.dates.numbers == full.dates.numbers);
    CHECK(difference(run.dates.dates, full.dates.dates) < 1e-9);
    CHECK(run.counter.intervals == full.counter.intervals);
    if (run.counter.calls < run.counter.intervals && full.counter.calls == full.counter.intervals) ++compared;
    if (!problem.job.execution.iteration_barrier) CHECK(run.counter.calls == run.counter.intervals);
  }
  CHECK(compared > repetitions(100) / 2);
}

// An iteration takes 3 s, and 6 s from 9 s on, when the device slows down. The first two are one interval.
// The third ends at the very time of the event and is replayed. The last two are the third interval.
TEST_CASE("iterations are repeated until something changes") {
  const Problem problem{flat_topology({1}, link_of(0, 1e6), link_of(0, 1e6)), chain_job(1, 0, 0), {}};
  const Plan plan = plan_of(problem.job, 1, 1, 1);
  Scenario scenario;
  scenario.events.push_back({9, 0, DeviceEvent::Kind::speed, 0.5});
  SimOptions options;
  options.iterations = 5;
  const Run run(problem, plan, scenario, options);
  CHECK(run.report.length_s == 21);
  CHECK(run.counter.intervals == 5);
  CHECK(run.counter.calls == 3);
}

// An iteration takes 3 s, and writing a checkpoint no time. Checkpoints are due at 9 and 18 s, at least 6.9 s
// after the one before. They separate three, three and two iterations.
TEST_CASE("a repetition ends when a checkpoint is due") {
  const Problem problem{flat_topology({1}, link_of(0, 1e6), link_of(0, 1e6)), chain_job(1, 0, 0), {}};
  Scenario scenario;
  scenario.checkpoint.emplace().period_s = 6.9;
  SimOptions options;
  options.iterations = 8;
  const Run run(problem, plan_of(problem.job, 1, 1, 1), scenario, options);
  CHECK(run.report.checkpoints == 2);
  CHECK(run.counter.calls == 5);
  CHECK(run.counter.intervals == 10);
  CHECK(run.report.length_s == 24);
}

TEST_CASE("repetitions do not exceed the latest time that can be simulated") {
  const Problem problem{flat_topology({1}, link_of(0, 1e6), link_of(0, 1e6)), chain_job(1, 0, 0), {}};
  SimOptions options;
  options.iterations = 1'000'000'000;
  CHECK_THROWS_WITH(simulate(problem, plan_of(problem.job, 1, 1, 1), {}, options),
                    contains("the run would reach 3e+09 s"));
}

TEST_CASE("every iteration with jitter is replayed") {
  const Problem problem{flat_topology({1}, link_of(0, 1e6), link_of(0, 1e6)), chain_job(1, 0, 0), {}};
  Scenario scenario;
  scenario.compute_jitter.cv = 0.1;
  const Run run(problem, plan_of(problem.job, 1, 1, 1), scenario);
  CHECK(run.counter.calls == 3);
}

TEST_CASE("a run interrupted during repetitions reports only iterations that all observers have recorded") {
  const Problem problem{flat_topology({2}, link_of(0, 1e6), link_of(0, 1e6)), chain_job(2, 0, 100), {}};
  const Plan plan = plan_of(problem.job, 2, 1, 2000);  // stops are noticed within an interval, too
  DateRecorder first, second;
  RepetitionCounter counter;
  SimOptions options;
  options.iterations = 1000;
  options.observers = {&first, &counter, &second};
  options.stop = [&] { return first.numbers.size() >= 3; };
  const SimReport report = simulate(problem, plan, {}, options);
  CHECK(report.stopped == stopped_by_user);
  CHECK(report.iterations.size() == 3);
  CHECK(first.numbers.size() == 3);
  CHECK(second.numbers.size() == 3);
  CHECK(counter.intervals == 3);
  CHECK(report.length_s == Approx(report.iterations.front().duration_s() * 3));
  CHECK(report.devices[0].compute_s > 0);
}
