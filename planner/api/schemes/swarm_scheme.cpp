// The scheme `swarm` (SWARM parallelism, Ryabinin et al., arXiv 2301.11913), which has no plan.
#include <algorithm>

#include <fmt/format.h>

#include "planner/api/schemes/layout.hpp"
#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "simulator/report/run_totals.hpp"
#include "simulator/report/useful_work.hpp"

namespace dtfm::api {
namespace {

/// A run with a fixed number of steps is aborted after this many times its compute time, because messages
/// that take longer than the timeout of their request are repeated forever. Without repetitions, forward and
/// backward of a stage take at most their timeouts, 30 + 75 s: about 200 times a compute time of half a
/// second. Runs with less compute that are as slow would end, but could not be the fastest.
constexpr double max_slowdown = 200;

sim::SwarmSetup make_setup(int stages, const SchemeOptions& options) {
  sim::SwarmSetup setup;
  setup.stages = stages;
  setup.transport = sim::SwarmTransport::peer_to_peer;
  setup.rebalance_s = 300;  // as in the measurements of the paper
  setup.verify = options.verify;
  setup.faulty_share = options.faulty_share;
  return setup;
}

/// Returns the largest memory deficit of any device, if there is one. Any peer may serve any stage, so each
/// must be able to hold the largest stage and one micro-batch.
std::optional<MemoryDeficit> deficit_in(const Problem& problem, int stages) {
  const Layout layout = replicate(problem, {0}, problem.job.execution.micro_batch);
  const Problem own{problem.topology, layout.job, problem.constants, problem.roofline};
  const sim::LoadModel model(own, layout.plan);
  std::optional<MemoryDeficit> worst;
  for (int device = 0; device < problem.topology->size(); ++device) {
    const auto memory = memory_of(problem.topology, device);
    for (int stage = 0; memory && stage < stages; ++stage) {
      const double needed = needed_bytes(model.of({even_split(model.layers(), stages, stage), {device}}));
      if (needed > *memory * (worst ? worst->ratio : 1))
        worst = memory_deficit(problem.topology, device, needed, *memory);
    }
  }
  return worst;
}

/// Compute time of `steps` steps with overheads, as if every device were as slow as the slowest.
double estimate_compute_s(const Problem& problem, int steps) {
  const Layout layout = replicate(problem, {0}, problem.job.execution.micro_batch);
  const sim::LoadModel model(problem, layout.plan);
  double slowest = 0;
  for (int device = 0; device < problem.topology->size(); ++device) {
    const sim::StageLoad load = model.of({{0, model.layers()}, {device}});
    slowest = std::max(slowest, load.forward_s + load.backward_s + load.update_s);
  }
  const double step_s = slowest * micro_batch_count(problem.job) / problem.topology->size();
  return steps * (step_s + slowest + problem.constants.iteration_overhead_s);
}

sim::DeviceReport device_report(const Topology& topology, const sim::SwarmDevice& it) {
  sim::DeviceReport report;
  report.device = it.device;
  report.compute_s = it.compute_s;
  report.waiting_network_s = it.fetching_s;
  report.waiting_others_s = it.idle_s;
  report.down_s = it.down_s;
  if (const int gpu = topology.devices[at(it.device)].gpu; gpu >= 0)
    report.memory_bytes = topology.gpus[at(gpu)].memory.value();
  return report;
}

sim::SimReport sim_report(const Problem& problem, const sim::Scenario& scenario,
                          const sim::SwarmReport& swarm) {
  sim::SimReport report;
  report.length_s = swarm.length_s;
  double begin = 0;
  std::vector<double> durations;
  for (const sim::SwarmStep& step : swarm.steps) {
    report.iterations.push_back({begin, step.end_s});
    if (report.iterations.size() > 1 || swarm.steps.size() == 1) durations.push_back(step.end_s - begin);
    begin = step.end_s;
  }
  report.iteration_time_s = sim::distribution(std::move(durations));
  const double batch = problem.job.training.global_batch;
  // The first step includes filling the swarm, so throughput is measured from its end, unless a horizon ends
  // the run.
  const bool iterations_differ = sim::has_disruptions(scenario) && scenario.horizon_s;
  report.tokens_per_s =
      sim::completed_per_s(report, batch * sequence_length(problem.job.model), iterations_differ);
  double flops = 0;
  for (const Layer& layer : layer_chain(problem.job)) flops += (layer.forward + layer.backward).value();
  report.model_flops_per_s = sim::completed_per_s(report, batch * flops, iterations_differ);
  // As for plans, work in incomplete steps is not counted.
  if (sim::has_disruptions(scenario)) {
    report.useful = sim::useful_work(problem, scenario, report, {batch, 0, problem.topology->size()}, 0);
    report.useful->optimal_samples = swarm.optimal_samples_per_s * swarm.length_s;
    report.useful->share_of_optimal = swarm.share_of_optimum;
    report.useful->samples_per_s = sim::completed_per_s(report, batch, iterations_differ);
  }
  for (const sim::SwarmDevice& it : swarm.devices)
    report.devices.push_back(device_report(problem.topology, it));
  report.peak_flops_per_s = sim::peak_flops_per_s(problem, report);
  report.bubble = sim::bubble(report);
  report.links = swarm.links;
  report.events = swarm.events;
  report.lost_work_s = swarm.lost_work_s;
  report.stopped = swarm.stopped;
  report.tasks = swarm.visits;
  report.events_handled = swarm.events_handled;
  report.flows = swarm.messages;
  return report;
}

/// Sets `stopped` if the run was aborted before it completed its steps.
void mark_incomplete(sim::SimReport& report, int steps) {
  const auto done = static_cast<int>(report.iterations.size());
  if (done >= steps || !report.stopped.empty()) return;
  report.deadlocked = done == 0;
  report.stopped = fmt::format("{} of {} steps in {:.6g} s, more than {:g} times the compute time", done,
                               steps, report.length_s, max_slowdown);
}

/// Why there is no swarm with as many stages as the job gives; empty if there is one.
std::string excess_of_stages(const Problem& problem) {
  const int stages = problem.job.parallelism.pipeline.value_or(1);
  if (const int layers = layer_count(problem.job.model); stages > layers)
    return fmt::format("`pipeline: {}` in the job exceeds the {} layers of the model", stages, layers);
  if (const int devices = problem.topology->size(); stages > devices)
    return fmt::format("`pipeline: {}` in the job exceeds the {} devices", stages, devices);
  return "";
}

/// The number of stages that the job gives, or else all that divide the layers.
std::vector<int> stages_to_try(const Problem& problem) {
  if (problem.job.parallelism.pipeline) return {*problem.job.parallelism.pipeline};
  const int layers = layer_count(problem.job.model);
  std::vector<int> divisors;
  for (int stages = 1; stages <= std::min(layers, problem.topology->size()); ++stages)
    if (layers % stages == 0) divisors.push_back(stages);
  return divisors;
}

/// The micro-batches that the job lists, or else that of the job, which is one sequence if it is automatic.
std::vector<int> micro_batches_to_try(const Job& job) {
  const bool has_list = job.automatic[Setting::micro_batch] && job.listed.contains(Setting::micro_batch);
  return has_list ? open_micro_batches(job) : std::vector{job.execution.micro_batch};
}

Problem with_micro_batch(Problem problem, int micro_batch) {
  problem.job.execution.micro_batch = micro_batch;
  return problem;
}

struct SwarmShape {
  int stages = 1, micro_batch = 1;
};

/// The shapes that fit every device. Sets the counts of `chosen`, and why a shape does not fit.
std::vector<SwarmShape> fitting_shapes(const Problem& problem, ChosenLayout& chosen) {
  std::vector<SwarmShape> fitting;
  chosen.is_input_error = true;
  std::optional<MemoryDeficit> smallest;
  const auto add_if_fitting = [&](const SwarmShape& shape) {
    ++chosen.tried;
    try {
      const std::optional<MemoryDeficit> deficit =
          deficit_in(with_micro_batch(problem, shape.micro_batch), shape.stages);
      chosen.is_input_error = false;
      if (deficit)
        keep_smallest(smallest, *deficit);
      else
        fitting.push_back(shape);
    } catch (const Error& error) {
      if (chosen.no_layout_reason.empty()) chosen.no_layout_reason = error.what();
    }
  };
  for (const int micro_batch : micro_batches_to_try(problem.job))
    for (const int stages : stages_to_try(problem)) add_if_fitting({stages, micro_batch});
  chosen.exceeds_memory = smallest && fitting.empty();
  if (smallest) chosen.no_layout_reason = "does not fit: " + smallest->text;
  chosen.simulated = chosen.fitting = static_cast<int>(fitting.size());
  return fitting;
}

/// The result of a short simulation with a given number of stages.
struct SwarmTrial {
  double rate = 0;    // tokens/s; 0 if no step was completed
  int min_peers = 0;  // of any stage, at the end of the run
  std::string error;
};

SwarmTrial tried(const Problem& problem, const sim::SwarmSetup& setup, std::uint64_t seed,
                 const StopFunction& stop) {
  sim::SimOptions options;
  options.iterations = swarm_trial_steps;
  options.seed = seed;
  options.stop = stop;
  try {
    const auto [swarm, report] = simulate_as_swarm(problem, setup, {}, options);
    const auto smallest = std::min_element(
        swarm.stages.begin(), swarm.stages.end(),
        [](const sim::SwarmStage& a, const sim::SwarmStage& b) { return a.peers < b.peers; });
    return {report.tokens_per_s, smallest->peers, ""};
  } catch (const Error& error) {
    return {0, 0, error.what()};
  }
}

/// The calls of a peer can be verified only if its stage has another peer, which repeats them.
bool is_verifiable(const SwarmTrial& trial) {
  return trial.rate > 0 && trial.min_peers > 1;
}

}  // namespace

ChosenLayout choose_swarm(const Problem& problem, const SchemeOptions& given, const Work& work) {
  ChosenLayout chosen;
  chosen.no_layout_reason = excess_of_stages(problem);
  if (!chosen.no_layout_reason.empty()) return chosen;
  const std::vector<SwarmShape> fitting = fitting_shapes(problem, chosen);
  const auto trials = distributed_map(chosen.fitting, work, [&](int i) {
    const auto& [stages, micro_batch] = fitting[at(i)];
    return tried(with_micro_batch(problem, micro_batch), make_setup(stages, given), given.seed, work.stop);
  });
  const auto best =
      std::max_element(trials.begin(), trials.end(), [&](const SwarmTrial& a, const SwarmTrial& b) {
        if (given.verify > 0 && is_verifiable(a) != is_verifiable(b)) return is_verifiable(b);
        return a.rate < b.rate;
      });
  if (best == trials.end()) return chosen;
  if (best->rate > 0) {
    chosen.no_layout_reason.clear();
    const SwarmShape& shape = fitting[static_cast<std::size_t>(best - trials.begin())];
    chosen.swarm = make_setup(shape.stages, given);
    chosen.micro_batch = shape.micro_batch;
    chosen.is_partly_verified = given.verify > 0 && !is_verifiable(*best);
    return chosen;
  }
  chosen.is_input_error =
      std::all_of(trials.begin(), trials.end(), [](const SwarmTrial& it) { return !it.error.empty(); });
  chosen.no_layout_reason = !best->error.empty() ? best->error
                            : is_stopped(work)   ? sim::stopped_by_user
                                                 : "requests time out: no step is completed";
  return chosen;
}

SwarmResult simulate_as_swarm(const Problem& problem, const sim::SwarmSetup& setup,
                              const sim::Scenario& scenario, const sim::SimOptions& given,
                              const std::function<void(const sim::SwarmEvent&)>& observe) {
  sim::SwarmOptions options;
  options.seconds = max_slowdown * estimate_compute_s(problem, given.iterations);
  if (!scenario.horizon_s) options.steps = given.iterations;
  options.seed = given.seed;
  options.stop = given.stop;
  options.observe = observe;
  SwarmResult result{sim::simulate_swarm(problem, setup, scenario, options), {}};
  result.report = sim_report(problem, scenario, result.swarm);
  if (setup.verify > 0 || setup.faulty_share > 0) result.report.verification = result.swarm.verification;
  if (options.steps) mark_incomplete(result.report, *options.steps);
  return result;
}

}  // namespace dtfm::api
