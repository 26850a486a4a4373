// Fails every device of a plan at many instants of an iteration. The run must always resume correctly and do
// every micro-batch of every completed iteration once.
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/rng.hpp"
#include "simulator/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/repetitions.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

constexpr int instants = repetitions(50);

/// Checks invariants of the intervals of a run.
class InvariantChecker : public RunObserver {
 public:
  InvariantChecker(const Scenario& scenario, int layers, int micro_batches)
      : scenario_(scenario), layers_(layers), micro_batches_(micro_batches) {}

  void on_interval(const RunInterval& run_interval) override {
    const bool may_overlap = follows_iteration_ && !run_interval.graph.starts.empty();
    violation_if(run_interval.start < last_end_ && !may_overlap, "intervals overlap");
    follows_iteration_ = run_interval.kind == RunInterval::Kind::iteration;
    violation_if(run_interval.end < run_interval.start, "an interval ends before it starts");
    last_end_ = run_interval.end;
    check_times(run_interval);
    check_devices(run_interval);
    if (run_interval.kind == RunInterval::Kind::iteration) check_iteration(run_interval);
    if (run_interval.kind == RunInterval::Kind::lost_iteration) lost_compute_s += computed(run_interval);
  }

  std::set<std::string> violations;
  int completed = 0;
  double lost_compute_s = 0;

 private:
  void violation_if(bool condition, const char* what) {
    if (condition) violations.insert(what);
  }

  void check_times(const RunInterval& run_interval) {
    for (const TaskRecord& task : run_interval.replay.tasks) {
      violation_if(task.start < run_interval.start, "a task starts before its interval");
      violation_if(task.finish > run_interval.end, "a task ends after its interval");
      violation_if(run_interval.kind == RunInterval::Kind::iteration && task.state != TaskState::done,
                   "a task of a completed iteration is not done");
    }
  }

  /// Checks that every device that computes, sends or receives is available for the whole interval.
  void check_devices(const RunInterval& run_interval) {
    for (const DeviceEvent& event : scenario_.events) {
      if (event.kind != DeviceEvent::Kind::leave) continue;
      double back = std::numeric_limits<double>::infinity();
      for (const DeviceEvent& join : scenario_.events)
        if (join.kind == DeviceEvent::Kind::join && join.device == event.device && join.date > event.date)
          back = std::min(back, join.date);
      constexpr double grid = 1e-9;  // resolution of simulated time
      if (run_interval.end <= event.date + grid || run_interval.start >= back - grid) continue;
      for (const TaskLabel& label : run_interval.graph.labels)
        violation_if(label.device == event.device || label.peer == event.device,
                     "a device that is gone works");
    }
  }

  /// Checks that every micro-batch has one backward pass per stage of its pipeline, and that the stages hold
  /// all layers.
  void check_iteration(const RunInterval& run_interval) {
    ++completed;
    std::map<std::tuple<int, int>, std::multiset<int>> stages_of;  // per pipeline and micro-batch
    for (const TaskLabel& label : run_interval.graph.labels)
      if (label.activity == Activity::backward)
        stages_of[{label.pipeline, label.micro_batch}].insert(label.stage);
    violation_if(static_cast<int>(stages_of.size()) != micro_batches_,
                 "a micro-batch is missing or done twice");
    for (const auto& [batch, stages] : stages_of) {
      int expected = 0;
      for (const int stage : stages) violation_if(stage != expected++, "a stage is missing or done twice");
      violation_if(expected != layers_, "a pipeline has not all stages");
    }
  }

  static double computed(const RunInterval& run_interval) {
    double sum = 0;
    for (std::size_t i = 0; i < run_interval.graph.graph.tasks.size(); ++i) {
      const TaskRecord& task = run_interval.replay.tasks[i];
      if (run_interval.graph.graph.tasks[i].kind == TaskKind::compute && !std::isnan(task.start))
        sum += (std::isnan(task.finish) ? run_interval.end : task.finish) - task.start;
    }
    return sum;
  }

  const Scenario& scenario_;
  int layers_, micro_batches_;
  double last_end_ = 0;
  bool follows_iteration_ = false;
};

/// A plan with as many stages as layers, and a spare device with the last index.
struct Case {
  int stages, replicas;
  Problem problem;
  Plan plan;

  Case(int s, int r, bool has_barrier = true)
      : stages(s),
        replicas(r),
        problem{flat_topology({s * r + 1}, link_of(0.01, 1e6), link_of(0.01, 1e6)), chain_job(s, 1e5, 2e5),
                Calibration{1, 0.001, 0.9, 0.1}} {
    plan = plan_of(problem.job, stages, replicas, 4);
    plan.execution.iteration_barrier = has_barrier;
  }
};

void check_report(const SimReport& report, const InvariantChecker& checker, int iterations) {
  CHECK(checker.violations == std::set<std::string>{});
  CHECK(report.stopped.empty());
  CHECK(static_cast<int>(report.iterations.size()) == iterations);
  CHECK(checker.completed == iterations);
  CHECK(report.lost_work_s == Approx(checker.lost_compute_s).margin(1e-9));
  const double length = report.iterations.back().end_s;
  for (const DeviceReport& device : report.devices)
    CHECK(device.compute_s + device.waiting_network_s + device.waiting_others_s + device.down_s ==
          Approx(length));
}

std::string text_of(const SimReport& report) {
  std::string text;
  for (const IterationReport& it : report.iterations)
    text += std::to_string(it.start_s) + " " + std::to_string(it.end_s) + "\n";
  for (const EventReport& event : report.events) text += std::to_string(event.date_s) + event.text + "\n";
  return text;
}

/// Fails `device` at time `date`. It rejoins after `away` s, or never if that is 0.
Scenario failure_scenario(FailurePolicy policy, int device, double date, double away) {
  Scenario scenario;
  scenario.on_failure = policy;
  scenario.detection_s = 0.5;
  scenario.checkpoint = Checkpoint{8e6, {}};
  scenario.events = {{date, device, DeviceEvent::Kind::leave}};
  if (away > 0) scenario.events.push_back({date + away, device, DeviceEvent::Kind::join});
  return scenario;
}

}  // namespace

TEST_CASE("a run survives the failure of any device at any instant of an iteration") {
  constexpr int iterations = 4;
  for (const auto& [stages, replicas, has_barrier] :
       {std::tuple{2, 2, true}, std::tuple{3, 2, true}, std::tuple{2, 1, true}, std::tuple{3, 2, false}}) {
    Case it(stages, replicas, has_barrier);
    SimOptions options;
    options.iterations = iterations;
    const SimReport calm = simulate(it.problem, it.plan, {}, options);
    const IterationReport second = calm.iterations[1];
    for (const FailurePolicy policy :
         {FailurePolicy::restart_without_pipeline, FailurePolicy::wait, FailurePolicy::spare,
          FailurePolicy::restart, FailurePolicy::redundant})
      for (int device = 0; device < stages * replicas; ++device)
        for (int instant = 0; instant < instants; ++instant) {
          const double date = second.start_s + second.duration_s() * instant / instants;
          CAPTURE(stages, replicas, has_barrier, policy, device, instant);
          // Without another pipeline or a spare, the device has to rejoin.
          const bool may_stay_down =
              policy == FailurePolicy::spare || (policy != FailurePolicy::wait && replicas > 1);
          for (const double away : {may_stay_down ? 0.0 : 0.1, 0.6 * second.duration_s()}) {
            const Scenario scenario = failure_scenario(policy, device, date, away);
            InvariantChecker checker(scenario, stages, 4 * replicas);
            options.observers = {&checker};
            const SimReport report = simulate(it.problem, it.plan, scenario, options);
            check_report(report, checker, iterations);
            CHECK(report.iterations.back().end_s > calm.iterations.back().end_s);
            if (instant % (instants / 5) == 0)
              CHECK(text_of(simulate(it.problem, it.plan, scenario, options)) == text_of(report));
          }
        }
  }
}

TEST_CASE("a run survives random failures with jitter and links that go down") {
  for (int seed = 0; seed < repetitions(60); ++seed) {
    CAPTURE(seed);
    Case it(2, 3);
    Rng rng = Rng::for_task(static_cast<std::uint64_t>(seed), 5);
    Scenario scenario;
    const FailurePolicy policies[] = {FailurePolicy::restart_without_pipeline, FailurePolicy::wait,
                                      FailurePolicy::spare, FailurePolicy::restart, FailurePolicy::redundant};
    scenario.on_failure = policies[seed % 5];
    scenario.detection_s = 0.3;
    scenario.checkpoint = Checkpoint{8e6, {}};
    scenario.compute_jitter.cv = 0.2;
    std::vector<bool> there(at(it.problem.topology->size()), true);
    scenario.traces = {{{{0, 1}, {3, 0.2}, {4, 0}}, 5, true}};
    scenario.link_traces = {{LinkTrace::Quantity::bandwidth, std::vector<bool>(there.size(), true),
                             std::vector<bool>(there.size(), true), false, 0}};
    double date = 0;
    for (int i = 0; i < 60; ++i) {
      date += 6 * rng.uniform();
      const int device = static_cast<int>(rng.below(static_cast<std::uint32_t>(there.size())));
      there[at(device)] = !there[at(device)];
      scenario.events.push_back(
          {date, device, there[at(device)] ? DeviceEvent::Kind::join : DeviceEvent::Kind::leave});
    }
    for (int device = 0; at(device) < there.size(); ++device)  // finally all devices rejoin
      if (!there[at(device)]) scenario.events.push_back({date + 1, device, DeviceEvent::Kind::join});
    InvariantChecker checker(scenario, 2, 12);
    SimOptions options;
    options.iterations = 12;
    options.observers = {&checker};
    check_report(simulate(it.problem, it.plan, scenario, options), checker, 12);
  }
}
