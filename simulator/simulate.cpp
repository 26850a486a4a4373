#include "simulator/simulate.hpp"

#include <optional>
#include <set>

#include "core/base/index.hpp"
#include "core/base/work.hpp"
#include "core/base/rng.hpp"
#include "simulator/iteration/device_starts.hpp"
#include "simulator/iteration/iteration_graph.hpp"
#include "simulator/model/stage_load.hpp"
#include "simulator/report/memory_use.hpp"
#include "simulator/report/run_statistics.hpp"
#include "simulator/report/run_totals.hpp"
#include "simulator/report/stage_memory.hpp"
#include "simulator/report/useful_work.hpp"
#include "simulator/run/checkpoint_period.hpp"
#include "simulator/run/run_graphs.hpp"
#include "simulator/run/training_run.hpp"

namespace dtfm::sim {
namespace {

int device_count(const Plan& plan) {
  const std::vector<int> devices = pipeline_major(plan);
  return static_cast<int>(std::set<int>(devices.begin(), devices.end()).size());
}

/// Model FLOPs of an iteration. Every micro-batch passes all layers, or with `paths` those on its path.
double model_flops(const Problem& problem, const Plan& plan, const PathSchedule* paths) {
  const LoadModel loads(problem, plan);
  double flops = 0;
  if (paths) {
    for (const auto& path : paths->paths)
      for (const Visit& it : path)
        flops += loads.of(plan.pipelines[at(it.pipeline)].stages[at(it.stage)]).model_flops;
    return flops;
  }
  for (const Stage& stage : plan.pipelines.front().stages)
    flops += loads.of(stage).model_flops * static_cast<double>(stage.devices.size());
  return static_cast<double>(total_micro_batches(plan)) * flops;
}

/// Paths of micro-batches over several pipelines leave no symmetry.
LabelledGraph undisturbed_graph(const Problem& problem, const Plan& plan, const PathSchedule* paths,
                                const StopFunction& stop) {
  return paths ? iteration_graph(problem, plan, paths, stop) : reduced_iteration_graph(problem, plan, stop);
}

/// Throws WorkStopped.
double steady_seconds(LabelledGraph graph, const StopFunction& stop) {
  const SteadyIteration last = replay_steady(graph, stop);
  if (last.replay.ended == ReplayEnd::stopped) throw WorkStopped();
  return last.seconds;
}

Distribution iteration_time(const std::vector<IterationReport>& iterations) {
  std::vector<double> durations;
  for (std::size_t i = iterations.size() > 1 ? 1 : 0; i < iterations.size(); ++i)
    durations.push_back(iterations[i].duration_s());
  return distribution(std::move(durations));
}

}  // namespace

SimReport simulate(const Problem& problem, const Plan& plan, const Scenario& scenario,
                   const SimOptions& options) {
  if (has_automatic_period(scenario))
    return simulate(problem, plan,
                    with_checkpoint_period(scenario, young_daly_period_s(problem, plan, scenario)), options);
  TrainingRun run(problem, plan, scenario, Rng::for_task(scenario.seed, options.seed).next(), options.stop,
                  options.replan, options.sync_every, options.paths);
  CurrentStageMemory memory(problem, plan, traits(scenario.on_failure).keeps_copies);
  RunStatistics statistics(problem.topology, memory.memory_of(),
                           down_intervals(scenario, problem.topology->size()));
  EgressMeter egress(problem.topology);
  // An observer that is stopped throws, and those after it do not count the interval.
  std::vector<RunObserver*> observers{&memory};
  observers.insert(observers.end(), options.observers.begin(), options.observers.end());
  observers.push_back(&statistics);
  if (has_disruptions(scenario)) observers.push_back(&egress);
  std::optional<double> undisturbed_s;
  try {
    if (has_disruptions(scenario))
      undisturbed_s = undisturbed_seconds(problem, plan, options.sync_every, options.paths, options.stop);
  } catch (const WorkStopped&) {  // the run will stop at once, too
  }
  SimReport report = run.run({options.iterations, scenario.horizon_s}, observers);

  const double length = run.length_s(), micro_batches = static_cast<double>(total_micro_batches(plan));
  report.length_s = length;
  statistics.add_to(report, run.devices(), length);
  report.iteration_time_s = iteration_time(report.iterations);
  const double tokens = micro_batches * plan.execution.micro_batch * sequence_length(problem.job.model);
  const bool iterations_differ = options.sync_every > 1 || has_disruptions(scenario);
  report.tokens_per_s = completed_per_s(report, tokens, iterations_differ);
  report.model_flops_per_s =
      completed_per_s(report, model_flops(problem, plan, options.paths), iterations_differ);
  report.peak_flops_per_s = peak_flops_per_s(problem, report);
  report.bubble = bubble(report);
  if (undisturbed_s)
    report.useful = useful_work(
        problem, scenario, report,
        {micro_batches * plan.execution.micro_batch, *undisturbed_s, device_count(plan)}, egress.usd());
  return report;
}

UndisturbedIteration simulate_undisturbed(const Problem& problem, const Plan& plan,
                                          const StopFunction& stop) try {
  LabelledGraph graph = reduced_iteration_graph(problem, plan, stop);
  const SteadyIteration last = replay_steady(graph, stop);
  if (last.replay.ended == ReplayEnd::stopped) return {};
  check_date(last.replay.makespan);
  UndisturbedIteration result{last.replay.ended == ReplayEnd::finished, last.seconds};
  MemoryUse memory(problem.topology->size(), stage_memory(problem, plan));
  memory.place(expand_virtual_stages(plan));
  memory.on_interval(
      {RunInterval::Kind::iteration, 0, last.start, last.replay.makespan, graph, last.replay, stop});
  for (const int device : pipeline_major(plan))
    if (const int gpu = problem.topology->devices[at(device)].gpu; gpu >= 0)
      result.exceeds_memory |= memory.peaks()[at(device)] > problem.topology->gpus[at(gpu)].memory.value();
  return result;
} catch (const WorkStopped&) {
  return {};
}

double undisturbed_seconds(const Problem& problem, const Plan& plan, int sync_every,
                           const PathSchedule* paths, const StopFunction& stop) {
  const double synchronized_s = steady_seconds(undisturbed_graph(problem, plan, paths, stop), stop);
  if (sync_every == 1) return synchronized_s;
  const double unsynchronized_s =
      steady_seconds(undisturbed_graph(problem, without_gradient_sync(plan), paths, stop), stop);
  return (synchronized_s + (sync_every - 1) * unsynchronized_s) / sync_every;
}

std::optional<FairnessComparison> compare_fairness(const Problem& problem, const Plan& plan,
                                                   const StopFunction& stop, const PathSchedule* paths) try {
  LabelledGraph graph = undisturbed_graph(problem, plan, paths, stop);
  graph.graph.model.weigh_by_latency = false;
  const double equal_s = steady_seconds(graph, stop);
  graph.graph.model.weigh_by_latency = true;
  return FairnessComparison{equal_s, steady_seconds(std::move(graph), stop)};
} catch (const WorkStopped&) {
  return std::nullopt;
}

std::vector<SimReport> simulate_samples(const Problem& problem, const Plan& plan, const Scenario& scenario,
                                        const SimOptions& options, int samples, const Work& work) {
  return distributed_map(samples, work, [&](int sample) {
    SimOptions own = options;
    own.seed = options.seed + static_cast<std::uint64_t>(sample);
    own.observers.clear();
    return simulate(problem, plan, scenario, own);
  });
}

}  // namespace dtfm::sim
