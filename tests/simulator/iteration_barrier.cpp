// Iterations in which a device begins as soon as it has completed the one before.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/base/rng.hpp"
#include "simulator/iteration/device_starts.hpp"
#include "simulator/simulate.hpp"
#include "tests/support/arbitrary_plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/repetitions.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

Plan without_barrier(Plan plan) {
  plan.execution.iteration_barrier = false;
  return plan;
}

/// One graph of several iterations, in which a device waits for its own end of the iteration before.
TaskGraph repeat(const LabelledGraph& iteration, int count) {
  const TaskGraph& once = iteration.graph;
  TaskGraph all = once;
  for (int i = 1; i < count; ++i) {
    const int offset = static_cast<int>(all.tasks.size()),
              before = offset - static_cast<int>(once.tasks.size());
    for (std::size_t task = 0; task < once.tasks.size(); ++task) {
      Task copy = once.tasks[task];
      copy.first_after = static_cast<int>(all.after.size());
      for (int k = 0; k < copy.after_count; ++k)
        all.after.push_back(once.after[at(once.tasks[task].first_after + k)] + offset);
      for (const DeviceTask& start : iteration.starts)
        for (const DeviceTask& end : iteration.ends)
          if (start.task == static_cast<int>(task) && start.device == end.device)
            all.after.push_back(end.task + before);
      copy.after_count = static_cast<int>(all.after.size()) - copy.first_after;
      all.tasks.push_back(copy);
    }
  }
  return all;
}

/// From the end of the first to that of the third of three iterations in one graph, per iteration.
double repeated_seconds(const LabelledGraph& iteration) {
  const Replay replayed = replay(repeat(iteration, 3));
  const std::size_t tasks = iteration.graph.tasks.size();  // the last task is the end of the iteration
  return (replayed.tasks.back().finish - replayed.tasks[tasks - 1].finish) / 2;
}

/// Two replicas of two stages, whose gradients take 1 s and 10 s.
std::pair<Problem, Plan> slow_last_stage() {
  Problem problem{flat_topology({4}, link_of(0, 1e9), link_of(0, 1e9)), chain_job(2, 0, 0), {}};
  auto& layers = std::get<LayerChain>(problem.job.model).layers;
  problem.job.training.precision = Precision::fp16;  // 2 bytes per gradient; a ring of two sends S in all
  layers[0].parameters = 1e9 / 2;
  layers[1].parameters = 10e9 / 2;
  problem.job.execution.gradient_sync = GradientSync::ring;
  Plan plan = without_barrier(plan_of(problem.job, 2, 2, 1));
  return {std::move(problem), std::move(plan)};
}

/// Problems with a random plan of two to eight devices, without a barrier.
std::pair<Problem, Plan> random_case(std::uint64_t number, bool shares_links) {
  Rng rng = Rng::for_task(17, number);
  const int devices = 2 + static_cast<int>(rng.below(7));
  Problem problem{random_topology(rng, devices, shares_links), random_chain_job(rng, 8),
                  Calibration{1, 1e-3, 0.9, 0.1}};
  set_training(rng, problem.job);
  problem.job.execution.iteration_barrier = false;
  Plan plan = arbitrary_plan(rng, problem, 2 - devices % 2, true);
  return {std::move(problem), std::move(plan)};
}

}  // namespace

// Stage 0 computes from 0 to 1 and from 4 to 6, and is synchronized at 7; stage 1 from 1 to 4, and at 14. In
// the second iteration stage 0 computes its forward pass from 7 to 8, and stage 1 from 14 to 17.
TEST_CASE("a stage begins an iteration while another one is synchronized") {
  const auto [problem, plan] = slow_last_stage();
  Plan with_barrier = plan;
  with_barrier.execution.iteration_barrier = true;
  CHECK(undisturbed_seconds(problem, with_barrier) == Approx(14));
  CHECK(undisturbed_seconds(problem, plan) == Approx(13));
  const SimReport report = simulate(problem, plan, {}, SimOptions());
  REQUIRE(report.iterations.size() == 3);
  CHECK(report.iterations[0].end_s == Approx(14));
  CHECK(report.iterations[1].start_s == Approx(14));
  CHECK(report.iterations[1].end_s == Approx(27));
  CHECK(report.length_s == Approx(40));
  // The iteration before ended when the last stage could begin.
  CHECK(report.critical_path.front().text == "compute stage 1 on s0/1");
  CHECK(report.critical_path.front().start_s == Approx(27));
  CHECK(report.critical_path.back().end_s == Approx(40));
  // Stage 0 waits from its end at 33 for that of the run.
  CHECK(report.devices[0].compute_s == Approx(9));
  CHECK(report.devices[0].waiting_network_s + report.devices[0].waiting_others_s == Approx(31));
}

// With zero1, the reduce-scatter and the all-gather each take half as long as a ring all-reduce. The
// optimizer step between them takes no time here, so that the times are those of the test above.
TEST_CASE("without a barrier, zero1 gathers the parameters of a stage while another one is synchronized") {
  auto [problem, plan] = slow_last_stage();
  plan.execution.optimizer_sharding = OptimizerSharding::zero1;
  CHECK(undisturbed_seconds(problem, plan) == Approx(13));
  plan.execution.iteration_barrier = true;
  CHECK(undisturbed_seconds(problem, plan) == Approx(14));
}

// The first device sums all gradients. It has two micro-batches and computes until 12; the second one has one
// and computes until 6. With a barrier, the second sends from 12 to 16 and the first from 16 to 20. Without
// one, the second sends from 6 to 10 and the first from 12 to 16. Both then begin the next iteration.
TEST_CASE("without a barrier, a device sends its gradients before others have theirs") {
  Problem problem{flat_topology({2}, link_of(0, 1e9), link_of(0, 1e9)), chain_job(2, 0, 0), {}};
  problem.job.training.precision = Precision::fp16;  // 2 bytes per gradient
  for (Layer& layer : std::get<LayerChain>(problem.job.model).layers) layer.parameters = 2e9 / 2;
  problem.job.execution.gradient_sync = GradientSync::central_ps;
  Plan plan = plan_of(problem.job, 1, 2, 1);
  plan.pipelines[0].micro_batches = 2;
  CHECK(undisturbed_seconds(problem, plan) == Approx(20));
  CHECK(undisturbed_seconds(problem, without_barrier(plan)) == Approx(16));
  const SimReport report = simulate(problem, without_barrier(plan), {}, SimOptions());
  REQUIRE(report.iterations.size() == 3);
  CHECK(report.iterations[0].end_s == Approx(16));
  CHECK(report.iterations[1].end_s == Approx(32));
}

TEST_CASE("every task of an iteration without a barrier has a unique name") {
  for (const GradientSync sync : {GradientSync::ring, GradientSync::sharded_ps, GradientSync::hierarchical})
    for (const OptimizerSharding sharding : {OptimizerSharding::none, OptimizerSharding::zero1})
      for (const bool overlap : {false, true}) {
        Problem problem{
            flat_topology({8}, link_of(1e-3, 1e9), link_of(1e-3, 1e9)), chain_job(4, 1e6, 1e6), {}};
        tie_last_layer(problem.job);
        ExecutionConfig& execution = problem.job.execution;
        execution.gradient_sync = sync;
        execution.optimizer_sharding = sharding;
        execution.overlap = overlap;
        execution.tied_embedding_sync = true;
        const LabelledGraph lowered =
            iteration_graph(problem, without_barrier(plan_of(problem.job, 4, 2, 2)));
        std::set<std::string> names;
        for (const TaskLabel& label : lowered.labels) {
          CAPTURE(name_of(sync), name_of(sharding), overlap, format_label(label));
          CHECK(names.insert(format_label(label)).second);
        }
        CHECK(names.count("step") == 1);
      }
}

TEST_CASE("without a barrier, a fixed overhead passes on every device before its next iteration") {
  Problem problem{flat_topology({2}, link_of(0, 1e9), link_of(0, 1e9)), chain_job(2, 0, 0), {}};
  problem.constants.iteration_overhead_s = 0.5;
  const Plan plan = plan_of(problem.job, 2, 1, 1);
  CHECK(undisturbed_seconds(problem, plan) == Approx(6.5));
  CHECK(undisturbed_seconds(problem, without_barrier(plan)) == Approx(6.5));
}

TEST_CASE("iterations without a barrier are those of one graph, unless they share links") {
  int shorter = 0;
  for (std::uint64_t number = 0; number < repetitions(300); ++number) {
    INFO("problem " << number);
    const auto [problem, plan] = random_case(number, false);
    const LabelledGraph graph = iteration_graph(problem, plan);
    CHECK(steady_seconds(graph) == Approx(repeated_seconds(graph)).epsilon(1e-9));
    if (steady_seconds(graph) < replay_makespan(graph) * 0.999) ++shorter;
  }
  CHECK(shorter > repetitions(20));
}

TEST_CASE("messages of two iterations hardly slow each other down") {
  double worst = 0;
  for (std::uint64_t number = 0; number < repetitions(300); ++number) {
    const auto [problem, plan] = random_case(number, true);
    const LabelledGraph graph = iteration_graph(problem, plan);
    worst = std::max(worst, std::abs(steady_seconds(graph) / repeated_seconds(graph) - 1));
  }
  CHECK(worst > 0);
  CHECK(worst < 0.005);
}

// In a run, devices compute and wait for as long as it takes in all, and the planner has its time.
TEST_CASE("a run without a barrier repeats the undisturbed iteration") {
  for (std::uint64_t number = 0; number < repetitions(60); ++number) {
    INFO("problem " << number);
    const auto [problem, plan] = random_case(number, true);
    const SimReport report = simulate(problem, plan, {}, SimOptions());
    CHECK(report.iteration_time_s.mean == Approx(simulate_undisturbed(problem, plan).seconds).epsilon(1e-9));
    CHECK(report.iteration_time_s.mean == Approx(undisturbed_seconds(problem, plan)).epsilon(1e-9));
    for (const DeviceReport& device : report.devices)
      CHECK(device.compute_s + device.waiting_network_s + device.waiting_others_s ==
            Approx(report.length_s).epsilon(1e-9));
    for (const LinkReport& link : report.links) CHECK(link.busy_s <= report.length_s * (1 + 1e-9));
  }
}

TEST_CASE("after a checkpoint all devices begin together") {
  const auto [problem, plan] = slow_last_stage();
  Scenario scenario;
  scenario.checkpoint.emplace().period_s = 1;
  const SimReport report = simulate(problem, plan, scenario, SimOptions());
  for (const IterationReport& it : report.iterations) CHECK(it.duration_s() == Approx(14));
}
