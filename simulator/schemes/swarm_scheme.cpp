// SWARM beside the schemes that are plans.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/core/parallel.hpp"
#include "simulator/model/stage_load.hpp"
#include "simulator/schemes/scheme.hpp"

namespace dtfm {
namespace {

/// Runs that a number of steps ends are given up after so many times what computing alone takes: where
/// messages take longer than requests may, they are asked for again and again.
constexpr double most_slowdown = 200;

SwarmSetup setup_of(int stages) {
  SwarmSetup setup;
  setup.stages = stages;
  setup.transport = SwarmTransport::peer_to_peer;
  setup.rebalance_s = 300;  // that of the paper's measurements
  return setup;
}

/// Any peer may come to serve any stage: whether all can hold the largest, and a micro-batch while they
/// compute it. The reason why not, else empty.
std::string lack_of(const Problem& problem, int stages) {
  Plan plan;
  plan.schedule = "1f1b";
  plan.gradient_sync = "ring";
  plan.pipelines = {{1, {{{0, layer_count(problem.job.model)}, {0}}}}};
  Problem own = problem;
  own.job.parallelism.schedule = plan.schedule;
  const LoadModel model(own, plan);
  for (int device = 0; device < problem.topology.size(); ++device) {
    const int gpu = problem.topology.devices[at(device)].gpu;
    if (gpu < 0) continue;
    const double memory = problem.topology.gpus[at(gpu)].memory.value();
    for (int stage = 0; stage < stages; ++stage) {
      const StageLoad load = model.of({even_split(model.layers(), stages, stage), {device}});
      const double needed = load.state_bytes + load.activation_bytes + load.working_bytes;
      if (needed > memory)
        return fmt::format("{} needs {:.1f} GB of {:.1f}", problem.topology.devices[at(device)].id,
                           needed / 1e9, memory / 1e9);
    }
  }
  return "";
}

/// Of so many steps, by all devices as if each were the slowest, and overheads.
double computing_s(const Problem& problem, int steps) {
  Plan plan;
  plan.schedule = "1f1b";
  plan.gradient_sync = "ring";
  plan.pipelines = {{1, {{{0, layer_count(problem.job.model)}, {0}}}}};
  const LoadModel model(problem, plan);
  double slowest = 0;
  for (int device = 0; device < problem.topology.size(); ++device) {
    const StageLoad load = model.of({{0, model.layers()}, {device}});
    slowest = std::max(slowest, load.forward_s + load.backward_s + load.update_s);
  }
  const double of_step = slowest * micro_batch_count(problem.job.training) / problem.topology.size();
  return steps * (of_step + slowest + problem.constants.iteration_overhead_s);
}

SwarmReport run(const Problem& problem, const SwarmSetup& setup, const Scenario& scenario, int steps,
                std::uint64_t seed, const std::function<bool()>& stop) {
  SwarmOptions options;
  options.seconds = most_slowdown * computing_s(problem, steps);
  if (!scenario.horizon_s) options.steps = steps;
  options.seed = seed;
  options.stop = stop;
  return simulate_swarm(problem, setup, scenario, options);
}

/// Samples per second of the steps after the first, or of the only one.
double step_rate(const Problem& problem, const SwarmReport& report) {
  const std::size_t steps = report.steps.size();
  if (steps == 0) return 0;
  const double begin = steps == 1 ? 0 : report.steps.front().end_s, time = report.steps.back().end_s - begin;
  const double samples = static_cast<double>(steps == 1 ? 1 : steps - 1) * problem.job.training.global_batch;
  return time > 0 ? samples / time : 0;
}

DeviceReport device_report(const Topology& topology, const SwarmDevice& it) {
  DeviceReport report;
  report.device = it.device;
  report.compute_s = it.compute_s;
  report.waiting_network_s = it.fetching_s;
  report.waiting_others_s = it.idle_s;
  report.down_s = it.down_s;
  if (const int gpu = topology.devices[at(it.device)].gpu; gpu >= 0)
    report.memory_bytes = topology.gpus[at(gpu)].memory.value();
  return report;
}

}  // namespace

ChosenLayout choose_swarm(const Problem& problem, std::uint64_t seed, int threads,
                          const std::function<bool()>& stop) {
  ChosenLayout chosen;
  std::vector<int> fitting;
  const int layers = layer_count(problem.job.model);
  for (int stages = 1; stages <= std::min(layers, problem.topology.size()); ++stages) {
    if (layers % stages != 0) continue;
    ++chosen.tried;
    std::string lack;
    try {
      lack = lack_of(problem, stages);
    } catch (const Error& error) {
      lack = error.what();
    }
    if (lack.empty())
      fitting.push_back(stages);
    else if (chosen.why_none.empty())
      chosen.why_none = lack;
  }
  chosen.fitting = static_cast<int>(fitting.size());
  struct Trial {
    double rate = 0;
    std::string error;
  };
  const auto trials = parallel_map(chosen.fitting, threads, [&](int i) {
    try {
      return Trial{step_rate(problem, run(problem, setup_of(fitting[at(i)]), {}, 2, seed, stop)), ""};
    } catch (const Error& error) {
      return Trial{0, error.what()};
    }
  });
  const auto best = std::max_element(trials.begin(), trials.end(),
                                     [](const Trial& a, const Trial& b) { return a.rate < b.rate; });
  if (best == trials.end()) return chosen;
  if (best->rate > 0)
    chosen.swarm = setup_of(fitting[static_cast<std::size_t>(best - trials.begin())]);
  else
    chosen.why_none = best->error.empty() ? "requests time out: no step comes to an end" : best->error;
  if (chosen.swarm) chosen.why_none.clear();
  return chosen;
}

SimReport simulate_as_swarm(const Problem& problem, const SwarmSetup& setup, const Scenario& scenario,
                            const SimOptions& options) {
  const SwarmReport swarm = run(problem, setup, scenario, options.iterations, options.seed, options.stop);
  SimReport report;
  report.length_s = swarm.length_s;
  double begin = 0;
  std::vector<double> durations;
  for (const SwarmStep& step : swarm.steps) {
    report.iterations.push_back({begin, step.end_s});
    if (report.iterations.size() > 1 || swarm.steps.size() == 1) durations.push_back(step.end_s - begin);
    begin = step.end_s;
  }
  report.iteration_time_s = distribution(std::move(durations));
  const double tokens = sequence_length(problem.job.model);
  report.tokens_per_s =
      tokens * (scenario.horizon_s ? swarm.useful_samples_per_s : step_rate(problem, swarm));
  double flops = 0;
  for (const Layer& layer : layer_chain(problem.job)) flops += (layer.forward + layer.backward).value();
  report.model_flops_per_s = report.tokens_per_s / tokens * flops;
  for (const SwarmDevice& it : swarm.devices) report.devices.push_back(device_report(problem.topology, it));
  report.links = swarm.links;
  report.events = swarm.events;
  report.lost_work_s = swarm.lost_work_s;
  report.stopped = swarm.stopped;
  report.events_handled = swarm.events_handled;
  report.flows = swarm.messages;
  return report;
}

}  // namespace dtfm
