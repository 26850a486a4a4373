#include "planner/api/finalist_simulation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "planner/api/checkpoint_period.hpp"
#include "planner/api/replanner.hpp"
#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "simulator/iteration/iteration_graph.hpp"
#include "planner/search/iteration_time/plan_score.hpp"
#include "simulator/simulate.hpp"

namespace dtfm::api {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// Without events, and with a barrier, all iterations take equally long, and one is enough.
bool is_event_free(const sim::Scenario& scenario) {
  return scenario.traces.empty() && scenario.events.empty() && !sim::is_random(scenario) &&
         !scenario.horizon_s;
}

/// Times between the ends of consecutive iterations, including lost work, state migration and checkpoints;
/// and from the last end to the end of the run if that is longer than any of them.
sim::Distribution completion_intervals(const sim::SimReport& report) {
  std::vector<double> seconds;
  double before = 0, longest = 0;
  for (const sim::IterationReport& it : report.iterations) {
    seconds.push_back(it.end_s - std::exchange(before, it.end_s));
    longest = std::max(longest, seconds.back());
  }
  if (report.length_s - before > longest) seconds.push_back(report.length_s - before);
  return sim::distribution(std::move(seconds));
}

double paid_share(const sim::SimReport& report, const Plan& plan, const Topology& topology) {
  const auto whole = search::price_of(topology, plan);
  if (!report.useful || !whole || whole->value() == 0 || report.length_s <= 0) return 1;
  double paid = 0;
  for (const sim::DeviceReport& it : report.devices) {
    const auto price = price_of(topology, it.device);
    if (!price) return 1;
    paid += price->value() * (1 - it.down_s / report.length_s);
  }
  return paid / whole->value();
}

/// With churn the mean is over the whole run. If the run deadlocked, it is over the whole horizon, and the
/// last iteration never ends.
SimulatedTimes summarize_run(const sim::SimReport& report, const NamedScenario& named,
                             const Topology& topology) {
  const sim::Distribution& times = report.iteration_time_s;
  if (!report.out_of_memory.empty()) {
    const std::string& device = topology.devices[at(report.out_of_memory.front())].id;
    return {named.name, never, never, never, fmt::format("device {} is out of memory", device)};
  }
  if (report.iterations.empty())
    return {
        named.name, never, never, never,
        report.stopped.empty() ? "the horizon ends before the first iteration is complete" : report.stopped};
  const auto completed = static_cast<double>(report.iterations.size());
  if (!report.deadlocked && report.useful) {
    const sim::Distribution between = completion_intervals(report);
    return {named.name, report.length_s / completed, between.p95, between.max};
  }
  if (!report.deadlocked) return {named.name, times.mean, times.p95, times.max};
  return {named.name, named.scenario.horizon_s ? *named.scenario.horizon_s / completed : never, never, never};
}

/// Throws WorkStopped.
SimulatedTimes simulated(const search::PlanCandidate& candidate, const NamedScenario& named, int random_runs,
                         const StopFunction& stop) {
  const Problem problem = simulated_problem(candidate);
  if (is_nominal_scenario(named)) {
    const sim::UndisturbedIteration it = sim::simulate_undisturbed(problem, candidate.plan, stop);
    if (!it.is_complete) throw_if_stopped(stop);
    if (!it.is_complete || it.exceeds_memory)
      return {named.name, never, never, never, it.exceeds_memory ? "out of memory" : "deadlock"};
    return {named.name, it.seconds, it.seconds, it.seconds};
  }
  sim::SimOptions options;
  options.stop = stop;
  options.replan = make_replanner(problem);
  if (is_event_free(named.scenario) && candidate.plan.execution.iteration_barrier) options.iterations = 1;
  const int runs = sim::is_random(named.scenario) ? random_runs : 1;
  SimulatedTimes result{named.name, 0, 0, 0};
  for (int run = 0; run < runs; ++run) {
    options.seed = static_cast<std::uint64_t>(run);
    const sim::SimReport report = sim::simulate(problem, candidate.plan, named.scenario, options);
    if (report.stopped == sim::stopped_by_user) throw WorkStopped();
    const SimulatedTimes times = summarize_run(report, named, problem.topology);
    if (result.why_none.empty()) result.why_none = times.why_none;
    result.mean_s += times.mean_s / runs;
    result.paid_share += (paid_share(report, candidate.plan, problem.topology) - 1) / runs;
    result.p95_s += times.p95_s / runs;
    result.max_s = std::max(result.max_s, times.max_s);
  }
  return result;
}

struct Run {
  SimulatedTimes simulated;
  std::string error;
  bool was_stopped = false;
  std::optional<double> checkpoint_period_s = {};
};

/// The simulator rejects some valid plans, for example those with too many micro-batches. Nothing is
/// simulated after a stop.
Run run_or_error(const search::PlanCandidate& candidate, const std::vector<NamedScenario>& scenarios,
                 std::size_t scenario, int runs, const StopFunction& stop) {
  const NamedScenario& named = scenarios[scenario];
  try {
    throw_if_stopped(stop);
    const std::optional<double> period_s = first_checkpoint_period_s(candidate, scenarios);
    if (!period_s || !sim::has_automatic_period(named.scenario))
      return {simulated(candidate, named, runs, stop), "", false, period_s};
    return {simulated(candidate, with_checkpoint_period(named, *period_s), runs, stop), "", false, period_s};
  } catch (const Error& error) {
    return {{named.name, never, never, never}, error.what(), false};
  } catch (const WorkStopped&) {
    return {{named.name, never, never, never}, "", true};
  }
}

}  // namespace

double aggregate_seconds(const std::vector<SimulatedTimes>& times,
                         const std::vector<NamedScenario>& scenarios, RobustCriterion robust) {
  const bool is_churn = is_under_churn(scenarios);
  double sum = 0, count = 0, p95 = 0, worst = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (is_churn && !has_departures(scenarios[i].scenario)) continue;
    ++count;
    sum += times[i].mean_s;
    p95 = std::max(p95, times[i].p95_s);
    worst = std::max(worst, times[i].max_s);
  }
  if (robust == RobustCriterion::mean) return sum / count;
  return robust == RobustCriterion::p95 ? p95 : worst;
}

namespace {

double aggregate_paid_share(const std::vector<SimulatedTimes>& times,
                            const std::vector<NamedScenario>& scenarios) {
  const bool is_churn = is_under_churn(scenarios);
  double paid_s = 0, all_s = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (!std::isfinite(times[i].mean_s) || (is_churn && !has_departures(scenarios[i].scenario))) continue;
    paid_s += times[i].mean_s * times[i].paid_share;
    all_s += times[i].mean_s;
  }
  return all_s > 0 ? paid_s / all_s : 1;
}

}  // namespace

std::vector<search::PlanCandidate> affordable_candidates(const std::vector<search::PlanCandidate>& candidates,
                                                         double max_tasks) {
  std::vector<search::PlanCandidate> affordable;
  double sum = 0;
  for (const search::PlanCandidate& it : candidates) {
    const double tasks = sim::tasks_of(it.job->problem, it.plan);
    if (!affordable.empty() && sum + tasks > max_tasks) continue;
    sum += tasks;
    affordable.push_back(it);
  }
  return affordable;
}

Work affordable_workers(Work work, const std::vector<search::PlanCandidate>& candidates, bool are_nominal) {
  constexpr double max_bytes = 2e9;
  double most = 1;
  for (const search::PlanCandidate& it : candidates)
    if (sim::computations_of(it.plan) <= sim::max_computations)
      most = std::max(most, sim::simulation_bytes(it.job->problem, it.plan, are_nominal));
  work.threads = std::clamp(static_cast<int>(max_bytes / most), 1, work.threads);
  return work;
}

bool has_departures(const sim::Scenario& scenario) {
  return std::any_of(scenario.events.begin(), scenario.events.end(),
                     [](const sim::DeviceEvent& it) { return it.kind == sim::DeviceEvent::Kind::leave; });
}

bool is_under_churn(const std::vector<NamedScenario>& scenarios) {
  return std::any_of(scenarios.begin(), scenarios.end(),
                     [](const NamedScenario& it) { return has_departures(it.scenario); });
}

bool is_nominal_scenario(const NamedScenario& named) {
  return is_event_free(named.scenario) && named.scenario.exclude_slower_than == 0;
}

Problem simulated_problem(const search::PlanCandidate& candidate) {
  Problem problem = candidate.job->problem;
  problem.job.execution = candidate.plan.execution;
  problem.job.parallelism.pipeline = candidate.shape().stages;
  problem.job.parallelism.data = candidate.shape().replicas;
  return problem;
}

std::vector<FinalistResult> simulate_finalists(const std::vector<search::PlanCandidate>& candidates,
                                               const std::vector<NamedScenario>& scenarios,
                                               RobustCriterion robust, const Work& work, int runs) {
  const int count = static_cast<int>(scenarios.size());
  const bool are_nominal = std::all_of(scenarios.begin(), scenarios.end(), is_nominal_scenario);
  const auto done = distributed_map(static_cast<int>(candidates.size()) * count,
                                    affordable_workers(work, candidates, are_nominal), [&](int i) {
                                      return run_or_error(candidates[at(i / count)], scenarios, at(i % count),
                                                          runs, work.stop);
                                    });
  std::vector<FinalistResult> finalist_results(candidates.size());
  for (std::size_t i = 0; i < done.size(); ++i) {
    FinalistResult& finalist_result = finalist_results[i / scenarios.size()];
    finalist_result.simulated.push_back(done[i].simulated);
    if (finalist_result.error.empty()) finalist_result.error = done[i].error;
    if (done[i].checkpoint_period_s) finalist_result.checkpoint_period = {*done[i].checkpoint_period_s};
    finalist_result.was_stopped = finalist_result.was_stopped || done[i].was_stopped;
  }
  for (FinalistResult& finalist_result : finalist_results) {
    finalist_result.seconds = aggregate_seconds(finalist_result.simulated, scenarios, robust);
    finalist_result.paid_share = aggregate_paid_share(finalist_result.simulated, scenarios);
  }
  return finalist_results;
}

}  // namespace dtfm::api
