#include "planner/api/simulate.hpp"

#include <utility>

#include "planner/api/replanner.hpp"
#include "planner/api/schemes/scheme.hpp"
#include "core/plan/plan_conflicts.hpp"
#include "simulator/calibration/prediction.hpp"
#include "simulator/simulate.hpp"

namespace dtfm::api {
namespace {

/// Reports the progress of a run at the end of each of its intervals.
class ProgressObserver : public sim::RunObserver {
 public:
  ProgressObserver(const SimulateRequest& request, int iterations)
      : request_(request), iterations_(iterations) {}

  void on_interval(const sim::RunInterval& run_interval) override {
    const auto& horizon_s = request_.scenario.horizon_s;
    const double share =
        horizon_s ? run_interval.end / *horizon_s : (run_interval.iteration + 1.0) / iterations_;
    request_.work.on_progress(
        {.share = share, .iteration = run_interval.iteration, .simulated_s = run_interval.end});
  }

 private:
  const SimulateRequest& request_;
  int iterations_;
};

void add_counts(const sim::SimReport& run, SimulateResult& result) {
  result.tasks += run.tasks;
  result.flows += run.flows;
  result.events += run.events_handled;
}

SimulateResult simulate_samples(const SimulateRequest& request, const sim::SimOptions& options) {
  const int samples = sim::is_random(request.scenario) ? *request.samples : 1;
  std::vector<sim::SimReport> runs =
      sim::simulate_samples(request.problem, request.plan, request.scenario, options, samples, request.work);
  SimulateResult result;
  result.report = runs.front();
  for (const sim::SimReport& it : runs) add_counts(it, result);
  // In interrupted runs the first iterations would have too much weight.
  if (is_stopped(options.stop))
    std::erase_if(runs, [](const sim::SimReport& it) { return it.stopped == sim::stopped_by_user; });
  result.samples = {samples, static_cast<int>(runs.size()), sim::sample_summary(runs)};
  return result;
}

SimulateResult simulate_swarm(const SimulateRequest& request, const sim::SimOptions& options) {
  long long steps = 0;  // of all stages together
  const int stages = request.swarm->stages;
  const auto observe = [&](const sim::SwarmEvent& event) {
    steps += event.kind == sim::SwarmEvent::Kind::stepped;
    if (!request.work.on_progress) return;
    const auto& horizon_s = request.scenario.horizon_s;
    const double all_steps = static_cast<double>(options.iterations) * stages;
    const double share = horizon_s ? event.date / *horizon_s : static_cast<double>(steps) / all_steps;
    request.work.on_progress({.share = share, .iteration = steps / stages, .simulated_s = event.date});
  };
  auto [swarm, report] =
      simulate_as_swarm(request.problem, *request.swarm, request.scenario, options, observe);
  SimulateResult result;
  result.report = std::move(report);
  result.swarm = std::move(swarm);
  add_counts(result.report, result);
  return result;
}

SimulateResult simulate_plan(const SimulateRequest& request, sim::SimOptions options) {
  ProgressObserver progress(request, options.iterations);
  options.observers = request.observers;
  if (request.work.on_progress) options.observers.push_back(&progress);
  SimulateResult result;
  result.report = sim::simulate(request.problem, request.plan, request.scenario, options);
  add_counts(result.report, result);
  return result;
}

sim::SimOptions common_options(const SimulateRequest& request) {
  sim::SimOptions options;
  options.iterations = request.iterations.value_or(request.swarm ? default_swarm_steps : default_iterations);
  options.seed = request.seed;
  options.stop = request.work.stop;
  return options;
}

sim::SimOptions plan_options(const SimulateRequest& request) {
  sim::SimOptions options = common_options(request);
  options.iterations *= request.sync_every;
  options.sync_every = request.sync_every;
  options.paths = request.paths();
  options.replan = make_replanner(request.problem);
  return options;
}

std::optional<sim::FairnessComparison> compare_fairness(const SimulateRequest& request) {
  if (request.swarm || is_stopped(request.work)) return std::nullopt;
  return sim::compare_fairness(request.problem, request.plan, request.work.stop, request.paths());
}

}  // namespace

SimulateResult simulate(const SimulateRequest& request) {
  if (!request.swarm) check_no_conflict(request.plan, request.problem.job);
  if (request.swarm && !request.samples) return simulate_swarm(request, common_options(request));
  SimulateResult result = request.samples ? simulate_samples(request, plan_options(request))
                                          : simulate_plan(request, plan_options(request));
  if (!request.swarm && !result.report.iterations.empty()) try {
      result.interval =
          sim::time_interval(request.problem, request.plan, request.spread,
                             result.report.iteration_time_s.mean, request.paths(), request.work.stop);
    } catch (const WorkStopped&) {  // the result is complete without it
    }
  if (request.compares_fairness) result.fairness = compare_fairness(request);
  return result;
}

}  // namespace dtfm::api
