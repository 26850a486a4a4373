#include "planner/api/simulate.hpp"

#include <utility>

#include <fmt/format.h>

#include "planner/api/replanner.hpp"
#include "core/base/index.hpp"
#include "core/plan/plan_conflicts.hpp"
#include "core/plan/shards.hpp"
#include "planner/cost/iteration_time/planned_order.hpp"
#include "simulator/calibration/prediction.hpp"
#include "simulator/report/run_totals.hpp"
#include "simulator/run/checkpoint_period.hpp"

namespace dtfm::api {
namespace {

/// Reports the progress of a run at the end of each of its intervals.
class ProgressObserver : public sim::RunObserver {
 public:
  ProgressObserver(const Work& work, std::optional<double> horizon_s, int iterations)
      : work_(work), horizon_s_(horizon_s), iterations_(iterations) {}

  void on_interval(const sim::RunInterval& run_interval) override {
    const double share =
        horizon_s_ ? run_interval.end / *horizon_s_ : (run_interval.iteration + 1.0) / iterations_;
    work_.on_progress({.share = share,
                       .what = "iteration",
                       .iteration = run_interval.iteration,
                       .simulated_s = run_interval.end});
  }

 private:
  const Work& work_;
  std::optional<double> horizon_s_;
  int iterations_;
};

/// Sets the layout of the scheme, if one fits.
void choose_layout(const SimulateRequest& request, SimulateResult& result) {
  const Scheme& scheme = scheme_named(*request.scheme);
  result.chosen = choose_layout(request.problem, scheme, request.options, request.work);
  if (!result.has_layout() && result.chosen->is_input_error)
    throw Error("", fmt::format("no layout of {} can be simulated: {}", scheme.name,
                                result.chosen->no_layout_reason));
  Job& job = result.problem.job;
  if (const auto& layout = result.chosen->layout) {
    job = layout->job;
    result.plan = layout->plan;
  } else if (result.chosen->swarm) {
    job.execution.micro_batch = result.chosen->micro_batch;
  }
  // The scheme decides the others.
  result.undecided = job.automatic = job.automatic & SettingSet{Setting::activations, Setting::gradients};
}

/// Replaces an automatic period of the scenario's checkpoint by that of the plan or, without one, by Young
/// and Daly's. A swarm writes no checkpoints.
void decide_checkpoint_period(const SimulateRequest& request, SimulateResult& result) {
  if (!sim::has_automatic_period(request.scenario) || result.is_swarm()) return;
  result.checkpoint_period =
      request.checkpoint_period_s
          ? CheckpointPeriod{*request.checkpoint_period_s, PeriodSource::plan_file}
          : CheckpointPeriod{sim::young_daly_period_s(result.problem, result.plan, request.scenario)};
  result.scenario = sim::with_checkpoint_period(request.scenario, result.checkpoint_period->seconds);
}

const PathSchedule* paths_of(const SimulateResult& result) {
  return result.chosen ? result.chosen->layout->paths() : nullptr;
}

sim::SimOptions options_of(const SimulateRequest& request, const SimulateResult& decided) {
  sim::SimOptions options;
  options.iterations =
      request.iterations.value_or(decided.is_swarm() ? default_swarm_steps : default_iterations);
  options.seed = request.options.seed;
  options.stop = request.work.stop;
  if (decided.is_swarm()) return options;
  options.replan = make_replanner(decided.problem);
  return decided.chosen ? layout_options(*decided.chosen->layout, options) : options;
}

void add_counts(const sim::SimReport& run, SimulateResult& result) {
  result.tasks += run.tasks;
  result.flows += run.flows;
  result.events += run.events_handled;
}

void simulate_samples(const SimulateRequest& request, SimulateResult& result) {
  const int samples = sim::is_random(result.scenario) ? *request.samples : 1;
  std::vector<sim::SimReport> runs = sim::simulate_samples(
      result.problem, result.plan, result.scenario, options_of(request, result), samples, request.work);
  result.report = runs.front();
  for (const sim::SimReport& it : runs) add_counts(it, result);
  // In interrupted runs the first iterations would have too much weight.
  if (is_stopped(request.work))
    std::erase_if(runs, [](const sim::SimReport& it) { return it.stopped == sim::stopped_by_user; });
  result.samples = {samples, static_cast<int>(runs.size()), sim::sample_summary(runs)};
  if (is_stopped(request.work))
    result.report.stopped = fmt::format("interrupted after {} of {} runs", runs.size(), samples);
}

void simulate_swarm(const SimulateRequest& request, SimulateResult& result) {
  const sim::SimOptions options = options_of(request, result);
  const auto& horizon_s = result.scenario.horizon_s;
  const int stages = result.chosen->swarm->stages;
  long long steps = 0;  // of all stages together
  const auto observe = [&](const sim::SwarmEvent& event) {
    steps += event.kind == sim::SwarmEvent::Kind::stepped;
    if (!request.work.on_progress) return;
    const double all_steps = static_cast<double>(options.iterations) * stages;
    const double share = horizon_s ? event.date / *horizon_s : static_cast<double>(steps) / all_steps;
    request.work.on_progress(
        {.share = share, .what = "step", .iteration = steps / stages, .simulated_s = event.date});
  };
  auto [swarm, report] =
      simulate_as_swarm(result.problem, *result.chosen->swarm, result.scenario, options, observe);
  result.swarm = {std::move(swarm), sim::usd_per_million_tokens(result.problem, report, report.tokens_per_s)};
  result.report = std::move(report);
  add_counts(result.report, result);
}

void simulate_plan(const SimulateRequest& request, SimulateResult& result) {
  sim::SimOptions options = options_of(request, result);
  if (request.observe) options.observers = request.observe(result);
  sim::TimelineRecorder timeline(result.problem.topology->size());
  if (request.records_timeline || request.measured) options.observers.push_back(&timeline);
  ProgressObserver progress(request.work, result.scenario.horizon_s, options.iterations);
  if (request.work.on_progress) options.observers.push_back(&progress);
  result.report = sim::simulate(result.problem, result.plan, result.scenario, options);
  add_counts(result.report, result);
  if (request.records_timeline || request.measured) result.timeline = timeline.timeline();
  if (request.measured) result.comparison = sim::compare_timelines(*result.timeline, *request.measured);
}

void estimate_accuracy(const SimulateRequest& request, SimulateResult& result) {
  if (!result.report.iterations.empty()) try {
      result.interval =
          sim::time_interval(result.problem, result.plan, request.spread, result.report.iteration_time_s.mean,
                             paths_of(result), request.work.stop);
    } catch (const WorkStopped&) {  // the result is complete without it
    }
  if (!is_stopped(request.work))
    result.fairness = sim::compare_fairness(result.problem, result.plan, request.work.stop, paths_of(result));
}

}  // namespace

bool SimulateResult::is_feasible() const {
  return has_layout() && report.out_of_memory.empty() && !(report.deadlocked && report.iterations.empty());
}

SimulateResult simulate(const SimulateRequest& request) {
  SimulateResult result;
  result.problem = request.problem;
  result.plan = request.plan;
  result.scenario = request.scenario;
  result.undecided = request.undecided;
  if (request.scheme) choose_layout(request, result);
  if (!result.has_layout()) return result;
  if (!result.is_swarm()) result.plan = cost::with_planned_orders(result.problem, std::move(result.plan));
  decide_checkpoint_period(request, result);
  if (!result.is_swarm()) check_no_conflict(result.plan, result.problem.job);
  const bool has_samples = request.samples && !result.is_swarm();
  if (!has_samples && request.work.ranks && !request.work.ranks->is_root()) return result;
  if (result.is_swarm())
    simulate_swarm(request, result);
  else if (has_samples)
    simulate_samples(request, result);
  else
    simulate_plan(request, result);
  if (request.estimates_accuracy && !result.is_swarm()) estimate_accuracy(request, result);
  return result;
}

}  // namespace dtfm::api
