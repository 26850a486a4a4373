#include "simulator/simulate.hpp"

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "simulator/model/stage_load.hpp"
#include "simulator/report/run_statistics.hpp"
#include "simulator/report/stage_memory.hpp"

namespace dtfm {
namespace {

std::vector<int> devices_of(const Plan& plan) {
  return pipeline_major(plan);
}

}  // namespace

SimReport simulate(const SimProblem& problem, const Plan& plan, const Scenario& scenario,
                   const SimOptions& options) {
  if (!scenario.events.empty() || !scenario.link_traces.empty())
    throw Error("", "scenarios are not available in this version");
  const LabelledGraph graph = iteration_graph(problem, plan);
  RunStatistics statistics(problem.topology, stage_memory(problem, plan));
  SimReport report;
  double now = 0;
  std::vector<double> durations;
  for (int iteration = 0; iteration < options.iterations; ++iteration) {
    if (options.stop && options.stop()) break;
    const Replay result = replay(graph.graph, {now});
    const Stretch stretch{Stretch::Kind::iteration, iteration, now, result.makespan, graph, result};
    statistics.see(stretch);
    for (RunObserver* observer : options.observers) observer->see(stretch);
    report.iterations.push_back({now, result.makespan});
    durations.push_back(result.makespan - now);
    now = result.makespan;
    report.tasks += static_cast<long long>(result.tasks.size());
    report.flows += result.flows;
    report.events_handled += result.events;
  }
  if (durations.size() > 1) durations.erase(durations.begin());
  report.iteration_time_s = distribution(durations);
  const double mean = report.iteration_time_s.mean;
  if (mean > 0) {
    double tokens = 0, flops = 0;
    const LoadModel model(problem.job, problem.topology, problem.constants);
    for (const Pipeline& pipeline : plan.pipelines)
      for (const Stage& stage : pipeline.stages)
        flops += pipeline.micro_batches * model.of(stage).model_flops;
    for (const Pipeline& pipeline : plan.pipelines)
      tokens += 1.0 * pipeline.micro_batches * problem.job.training.micro_batch *
                sequence_length(problem.job.model);
    report.tokens_per_s = tokens / mean;
    report.model_flops_per_s = flops / mean;
  }
  const std::vector<int> devices = devices_of(plan);
  statistics.add_to(report, devices, std::vector<double>(at(problem.topology.size())), now);
  double computing = 0;
  for (const DeviceReport& device : report.devices) computing += device.compute_s;
  if (now > 0) report.bubble = 1 - computing / (now * static_cast<double>(devices.size()));
  for (const int device : devices) {
    const int gpu = problem.topology.devices[at(device)].gpu;
    if (gpu >= 0 && problem.topology.gpus[at(gpu)].peak)
      report.peak_flops_per_s += problem.topology.gpus[at(gpu)].peak->value();
  }
  return report;
}

}  // namespace dtfm
