#include "simulator/iteration/path_graph.hpp"

#include <map>
#include <set>
#include <string>

#include "core/schedule/schedule.hpp"
#include "simulator/model/stage_load.hpp"
#include "simulator/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/compute_seconds.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

/// Returns two sites with shared links, a slower device, and compression that takes time.
Problem busy_problem(Schedule schedule, GradientSync sync) {
  Problem problem{flat_topology({4, 4}, link_of(0.001, 5e8), link_of(0.03, 1e8)), chain_job(8, 2e8, 3e7),
                  Calibration{1, 0.002, 0.9, 0.5}};
  problem.topology.edit().sites[0].uplink = BitsPerSecond(12e8);
  problem.topology.edit().devices[6].speed = 0.75;
  std::get<RuleLinks>(problem.topology.edit().links).links[0].shared_by_sender = true;
  problem.job.execution.schedule = schedule;
  problem.job.execution.gradient_sync = sync;
  return problem;
}

/// Returns paths on which the micro-batches of each pipeline visit its own stages in the order of its
/// schedule. The micro-batches of pipeline p follow those of the pipelines before it.
PathSchedule as_pipelines(const Plan& plan) {
  PathSchedule paths;
  for (int p = 0; at(p) < plan.pipelines.size(); ++p) {
    const Pipeline& pipeline = plan.pipelines[at(p)];
    const int first = static_cast<int>(paths.paths.size()), stages = static_cast<int>(pipeline.stages.size());
    std::vector<Visit> path;
    std::vector<std::vector<Operation>> orders;
    for (int s = 0; s < stages; ++s) {
      path.push_back({p, s});
      orders.push_back(operation_order(plan.execution.schedule, {stages, s, 1, pipeline.micro_batches}, 0));
    }
    paths.paths.insert(paths.paths.end(), at(pipeline.micro_batches), path);
    std::vector<int> turns(at(pipeline.micro_batches));
    std::vector<std::size_t> next(at(stages));
    for (int left = 2 * stages * pipeline.micro_batches; left > 0;)
      for (int s = 0; s < stages; ++s) {
        if (next[at(s)] == orders[at(s)].size()) continue;
        const Operation it = orders[at(s)][next[at(s)]];
        if (turns[at(it.micro_batch)] != (it.kind == Operation::Kind::forward ? s : 2 * stages - 1 - s))
          continue;
        paths.order.push_back(first + it.micro_batch);
        ++turns[at(it.micro_batch)];
        ++next[at(s)];
        --left;
      }
  }
  return paths;
}

/// Returns start and end of each task. `first` is the index of each pipeline's first micro-batch.
std::map<std::string, std::pair<double, double>> times_of(const LabelledGraph& lowered,
                                                          const std::vector<int>& first) {
  const Replay replayed = replay(lowered.graph);
  std::map<std::string, std::pair<double, double>> dates;
  for (std::size_t i = 0; i < lowered.labels.size(); ++i) {
    TaskLabel label = lowered.labels[i];
    if (label.pipeline != no_index) label.micro_batch -= first[at(label.pipeline)];
    dates[format_label(label)] = {replayed.tasks[i].start, replayed.tasks[i].finish};
  }
  return dates;
}

/// Stages of 2, 1 and 2 devices with one layer each: devices 0, 1 | 2 | 3, 4. Micro-batch 1 skips the middle
/// stage.
struct Partial {
  Problem problem{flat_topology({5}, link_of(0, 1e8), link_of(0, 1e8)), chain_job(3, 1e7, 1e8),
                  Calibration{1, 0, 1, 0}};
  Plan plan{1,
            {.schedule = Schedule::paths, .gradient_sync = GradientSync::ring},
            {{1, {{{0, 1}, {0}}, {{1, 2}, {2}}, {{2, 3}, {3}}}}, {1, {{{0, 1}, {1}}, {{2, 3}, {4}}}}}};
  PathSchedule paths{{{{0, 0}, {0, 1}, {1, 1}}, {{1, 0}, {0, 2}}}, {0, 1, 0, 1, 0, 1, 0, 1, 0, 0}};
};

}  // namespace

TEST_CASE("paths along pipelines give the same times as pipelines") {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b})
    for (const GradientSync sync : {GradientSync::sharded_ps, GradientSync::ring, GradientSync::hierarchical})
      for (const bool compressed : {false, true}) {
        CAPTURE(schedule, sync, compressed);
        Problem problem = busy_problem(schedule, sync);
        if (compressed) problem.job.execution.compression = {0.5, 0.5, BitsPerSecond(1e10)};
        // between the sites
        if (sync == GradientSync::ring)
          problem.job.execution.compression.bandwidth_threshold = BitsPerSecond(2e8);
        Plan plan = plan_of(problem.job, 4, 2, 6);
        plan.pipelines[1].micro_batches = 5;
        const PathSchedule paths = as_pipelines(plan);
        const auto expected = times_of(iteration_graph(problem, plan), {0, 0});
        const auto found = times_of(iteration_graph(problem, plan, &paths), {0, 6});
        REQUIRE(found.size() == expected.size());
        for (const auto& [name, dates] : expected) {
          CAPTURE(name);
          REQUIRE(found.count(name) == 1);
          CHECK(found.at(name).first == Approx(dates.first).epsilon(1e-9).margin(1e-9));
          CHECK(found.at(name).second == Approx(dates.second).epsilon(1e-9).margin(1e-9));
        }
        const SimReport report = simulate(problem, plan, {}, SimOptions());
        SimOptions options;
        options.paths = &paths;
        const SimReport along = simulate(problem, plan, {}, options);
        CHECK(along.iteration_time_s.mean == Approx(report.iteration_time_s.mean).epsilon(1e-9));
        CHECK(along.model_flops_per_s == Approx(report.model_flops_per_s).epsilon(1e-9));
        for (std::size_t i = 0; i < report.devices.size(); ++i)
          CHECK(along.devices[i].peak_memory_bytes == report.devices[i].peak_memory_bytes);
      }
}

// Messages of 1 s, forward passes of 1 s, backward passes of 2 s, no gradient synchronization.
//   micro-batch 0, devices 0 2 4: F 0–1, 2–3, 4–5; B 5–7, 8–10, 11–13
//   micro-batch 1, devices 1 3: F 0–1, 2–3; B 3–5, 6–8
TEST_CASE("a micro-batch computes only the stages on its path") {
  Partial it;
  it.plan.execution.gradient_sync = GradientSync::none;
  const LabelledGraph lowered = iteration_graph(it.problem, it.plan, &it.paths);
  CHECK(replay_makespan(lowered) == Approx(13));
  for (int device = 0; device < 5; ++device) CHECK(compute_seconds(lowered, device) == Approx(3));
  SimOptions options;
  options.iterations = 1;
  options.paths = &it.paths;
  const SimReport report = simulate(it.problem, it.plan, {}, options);
  CHECK(report.model_flops_per_s == Approx(5 * 3e12 / 13));
  CHECK(report.tokens_per_s == Approx(2 * sequence_length(it.problem.job.model) / 13.0));
}

// A ring of two: each sends its half of a layer's 2e7 bytes and then receives the other half: 2 · 1e7 bytes.
TEST_CASE("devices that hold the same layers synchronize gradients") {
  const Partial it;
  const LabelledGraph lowered = iteration_graph(it.problem, it.plan, &it.paths);
  std::map<int, double> sent;
  for (std::size_t i = 0; i < lowered.labels.size(); ++i)
    if (lowered.labels[i].activity == Activity::gradient_sync)
      sent[lowered.labels[i].device] += lowered.graph.tasks[i].amount;
  CHECK(sent.size() == 4);
  CHECK(sent.count(2) == 0);
  for (const auto& [device, bytes] : sent) CHECK(bytes == Approx(2e7));
  std::set<std::string> names;
  for (const TaskLabel& label : lowered.labels) CHECK(names.insert(format_label(label)).second);
}

TEST_CASE("devices of a path cannot fail and paths must be complete") {
  Partial it;
  SimOptions options;
  options.paths = &it.paths;
  Scenario scenario;
  scenario.events = {{1.0, 2, DeviceEvent::Kind::leave}};
  CHECK(error_message([&] {
          simulate(it.problem, it.plan, scenario, options);
        }).starts_with("devices that leave or are excluded are not supported with paths of micro-batches"));
  scenario.events.clear();
  scenario.exclude_slower_than = 0.5;
  CHECK_THROWS_AS(simulate(it.problem, it.plan, scenario, options), Error);
  it.paths.order.pop_back();
  CHECK_THROWS_AS(iteration_graph(it.problem, it.plan, &it.paths), BrokenInvariant);
}
