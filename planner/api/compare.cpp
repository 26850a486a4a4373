#include "planner/api/compare.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "planner/api/churn_plans.hpp"
#include "planner/api/find_plans.hpp"
#include "planner/api/replanner.hpp"
#include "core/base/index.hpp"
#include "planner/cost/iteration_time/planned_order.hpp"
#include "core/plan/target.hpp"
#include "simulator/report/run_totals.hpp"

namespace dtfm::api {
namespace {

bool is_requested(const CompareRequest& request, std::string_view scheme) {
  return request.schemes.empty() ||
         std::find(request.schemes.begin(), request.schemes.end(), scheme) != request.schemes.end();
}

/// The plan that `plan` finds for the job by default.
ChosenLayout plan_layout(const CompareRequest& request, const Job& job) {
  if (const int depth = job.parallelism.pipeline.value_or(1); requires_single_devices(job) && depth > 1)
    throw Error("", fmt::format("{} requires pipelines of one stage, but the job has pipeline {}",
                                name_of(job.execution.optimizer_sharding), depth));
  PlanRequest planned{request.problem};
  planned.problem.job = job;
  if (!std::all_of(request.scenarios.begin(), request.scenarios.end(), survives_sharded))
    planned.problem.job.automatic[Setting::optimizer_sharding] =
        false;  // as dtfm-plan does under these scenarios
  planned.options.limits = {job.parallelism.pipeline, job.parallelism.data};
  planned.options.common = {request.work, request.options.seed};
  if (request.work.on_progress)
    planned.options.common.on_progress = [&](Progress progress) {
      progress.scheme = planned_scheme;
      request.work.on_progress(progress);
    };
  const FoundPlans result = find_plans(planned);
  if (result.simulation == SimulationStatus::failed) throw Error("", result.simulation_error);
  ChosenLayout chosen;
  chosen.tried = chosen.simulated = static_cast<int>(result.plans.size());
  if (!result.fits()) {
    chosen.no_layout_reason = "no plan fits the memory";
    chosen.fitting_changes = search::feasible_changes(planned.problem, planned.options);
    return chosen;
  }
  chosen.fitting = chosen.tried;
  const search::PlanCandidate& best = result.best();
  chosen.layout = Layout{best.job->problem.job, best.plan, 1};
  chosen.layout->job.execution = best.plan.execution;
  return chosen;
}

ChosenLayout plan_layout_or_error(const CompareRequest& request, const Job& job) {
  try {
    return plan_layout(request, job);
  } catch (const Error& error) {
    ChosenLayout none;
    none.no_layout_reason = error.what();
    none.is_input_error = true;
    return none;
  }
}

/// Returns why the run has no result; empty if it has one.
std::string failure_of(const Problem& problem, const sim::SimReport& report) {
  if (!report.out_of_memory.empty())
    return fmt::format("{} is out of memory", problem.topology->devices[at(report.out_of_memory.front())].id);
  if (report.tokens_per_s > 0) return "";
  return report.stopped.empty() ? "no iteration was completed" : report.stopped;
}

double tokens_per_batch(const Problem& problem) {
  return static_cast<double>(problem.job.training.global_batch) * sequence_length(problem.job.model);
}

/// `replans`: the run may continue with another plan of the planner if the scenario's policy asks for one.
sim::SimReport simulate_layout(const CompareRequest& request, const ChosenLayout& chosen,
                               const sim::Scenario& scenario, bool replans) {
  sim::SimOptions sim;
  sim.iterations = request.iterations.value_or(chosen.swarm ? default_swarm_steps : default_iterations);
  sim.seed = request.options.seed;
  sim.stop = request.work.stop;
  const Problem& problem = request.problem;
  const Problem scheme_problem{problem.topology, chosen.layout ? chosen.layout->job : problem.job,
                               problem.constants, problem.roofline};  // outlives the run
  if (replans) sim.replan = make_replanner(scheme_problem);
  if (!chosen.layout) return simulate_chosen(problem, chosen, scenario, sim);
  ChosenLayout complete = chosen;
  complete.layout->plan = cost::with_planned_orders(scheme_problem, std::move(complete.layout->plan));
  return simulate_chosen(problem, complete, scenario, sim);
}

ComparedRun make_run(const CompareRequest& request, const ChosenLayout& chosen, const sim::Scenario& scenario,
                     bool replans) {
  ComparedRun run;
  try {
    run.report = simulate_layout(request, chosen, scenario, replans);
    run.failure = failure_of(request.problem, run.report);
  } catch (const Error& error) {
    run.failure = error.what();
  }
  if (run.failure.empty()) run.tokens_per_s = run.report.tokens_per_s;
  if (run.tokens_per_s > 0) run.seconds_per_batch = tokens_per_batch(request.problem) / run.tokens_per_s;
  run.cost_per_million_tokens = sim::usd_per_million_tokens(request.problem, run.report, run.tokens_per_s);
  return run;
}

bool is_plan(const std::string& scheme) {
  return scheme.starts_with(planned_scheme);
}

/// The runs under every scenario; empty without a layout.
std::vector<ComparedRun> simulate_scenarios(const CompareRequest& request, const ComparedScheme& scheme) {
  if (!scheme.chosen.is_any()) return {};
  return distributed_map(static_cast<int>(request.scenarios.size()), request.work, [&](int i) {
    return make_run(request, scheme.chosen, request.scenarios[at(i)], is_plan(scheme.name));
  });
}

ComparedScheme choose_scheme(const CompareRequest& request, const Scheme& scheme) {
  return {std::string(scheme.name),
          std::string(scheme.what),
          assumptions(scheme, request.options, request.problem.job),
          choose_layout(request.problem, scheme, request.options, request.work),
          {}};
}

ComparedScheme choose_plan(const CompareRequest& request, const Job& job) {
  return {std::string(planned_scheme),
          "the plan that dtfm-plan makes",
          "messages overlap with computations; stages and pipelines may differ from each other",
          plan_layout_or_error(request, job),
          {}};
}

std::string name_of_plan_with(const RunSettings& settings) {
  return fmt::format("{} ({})", planned_scheme, format_settings(settings));
}

ComparedScheme choose_plan_with(const CompareRequest& request, const RunSettings& settings) {
  return {name_of_plan_with(settings),
          fmt::format("the plan that dtfm-plan makes for {}", format_settings(settings)),
          "otherwise as planned",
          plan_layout_or_error(request, with_settings(request.problem.job, settings)),
          {}};
}

/// Those between the decomposable schemes and the plan, which is the first scheme, without its own.
std::vector<RunSettings> settings_to_plan(const std::vector<ComparedScheme>& schemes) {
  const Plan& planned = schemes.front().chosen.layout->plan;
  std::vector<RunSettings> all = {settings_of(planned)};
  for (const ComparedScheme& it : schemes) {
    if (is_plan(it.name) || !is_decomposable(it.chosen)) continue;
    const SettingSteps steps = steps_between(*it.chosen.layout, planned);
    for (const RunSettings& settings : {steps.layout, steps.planned_schedule})
      if (std::find(all.begin(), all.end(), settings) == all.end()) all.push_back(settings);
  }
  all.erase(all.begin());
  return all;
}

bool completes_all(const ComparedScheme& scheme) {
  return scheme.chosen.is_any() &&
         std::all_of(scheme.runs.begin(), scheme.runs.end(),
                     [](const ComparedRun& it) { return it.failure.empty() && it.report.stopped.empty(); });
}

/// The plan with its runs. If it has a sharded optimizer and does not complete them, the one without, as
/// dtfm-plan does: the replicas that are left when one stops may not have the memory for its share.
ComparedScheme simulate_plan(const CompareRequest& request) {
  const auto simulated = [&](const Job& job) {
    ComparedScheme scheme = choose_plan(request, job);
    scheme.runs = simulate_scenarios(request, scheme);
    return scheme;
  };
  ComparedScheme planned = simulated(request.problem.job);
  const bool is_sharded = planned.chosen.is_any() &&
                          planned.chosen.layout->plan.execution.optimizer_sharding != OptimizerSharding::none;
  if (!is_sharded || completes_all(planned) || is_stopped(request.work) ||
      !request.problem.job.automatic[Setting::optimizer_sharding] ||
      std::none_of(request.scenarios.begin(), request.scenarios.end(), has_departures))
    return planned;
  Job job = request.problem.job;
  job.automatic[Setting::optimizer_sharding] = false;
  job.execution.optimizer_sharding = OptimizerSharding::none;
  ComparedScheme unsharded = simulated(job);
  return completes_all(unsharded) ? unsharded : planned;
}

/// Simulates every scheme before it chooses the layout of the next one, so that an interrupt keeps earlier
/// results.
std::vector<ComparedScheme> compare_schemes(const CompareRequest& request) {
  std::vector<ComparedScheme> done;
  if (is_requested(request, planned_scheme)) done.push_back(simulate_plan(request));
  const auto add = [&](ComparedScheme scheme) {
    scheme.runs = simulate_scenarios(request, scheme);
    done.push_back(std::move(scheme));
  };
  const auto all = static_cast<double>(schemes().size());
  for (const Scheme& scheme : schemes()) {
    if (is_stopped(request.work) || !is_requested(request, scheme.name)) continue;
    if (request.work.on_progress)
      request.work.on_progress(
          {.share = static_cast<double>(&scheme - schemes().data()) / all, .scheme = scheme.name});
    add(choose_scheme(request, scheme));
  }
  if (!done.empty() && done.front().name == planned_scheme && done.front().chosen.layout)
    for (const RunSettings& settings : settings_to_plan(done)) {
      if (is_stopped(request.work)) break;
      add(choose_plan_with(request, settings));
    }
  return done;
}

double nominal_seconds(const std::vector<ComparedScheme>& schemes, const std::string& name) {
  const auto it =
      std::find_if(schemes.begin(), schemes.end(), [&](const auto& other) { return other.name == name; });
  return it == schemes.end() || it->runs.empty() ? 0 : it->runs.front().seconds_per_batch;
}

std::vector<Speedup> find_speedups(const std::vector<ComparedScheme>& schemes) {
  std::vector<Speedup> speedups;
  if (schemes.empty() || schemes.front().name != planned_scheme || !schemes.front().chosen.layout) return {};
  const Plan& planned = schemes.front().chosen.layout->plan;
  const auto seconds_with = [&](const RunSettings& settings) {
    return nominal_seconds(schemes, settings == settings_of(planned) ? std::string(planned_scheme)
                                                                     : name_of_plan_with(settings));
  };
  for (const ComparedScheme& it : schemes) {
    if (is_plan(it.name) || !is_decomposable(it.chosen)) continue;
    const auto [layout, planned_schedule] = steps_between(*it.chosen.layout, planned);
    const double own = nominal_seconds(schemes, it.name), placed = seconds_with(layout),
                 scheduled = seconds_with(planned_schedule), all = seconds_with(settings_of(planned));
    if (std::min({own, placed, scheduled, all}) > 0)
      speedups.push_back({it.name, own / all, own / placed, placed / scheduled, scheduled / all});
  }
  return speedups;
}

void set_time_ratios(std::vector<ComparedScheme>& schemes) {
  if (schemes.empty() || schemes.front().runs.empty()) return;
  std::vector<double> reference;
  for (const ComparedRun& run : schemes.front().runs) reference.push_back(run.tokens_per_s);
  for (ComparedScheme& scheme : schemes)
    for (std::size_t i = 0; i < scheme.runs.size(); ++i)
      if (scheme.runs[i].tokens_per_s > 0)
        scheme.runs[i].time_ratio = reference[i] / scheme.runs[i].tokens_per_s;
}

void check_names(const CompareRequest& request) {
  const std::vector<std::string> names = compared_schemes();
  for (const std::string& scheme : request.schemes)
    if (std::find(names.begin(), names.end(), scheme) == names.end())
      throw Error("", fmt::format("unknown scheme '{}'", scheme));
}

void throw_if_input_errors(const std::vector<ComparedScheme>& schemes) {
  if (std::all_of(schemes.begin(), schemes.end(),
                  [](const ComparedScheme& it) { return it.chosen.is_input_error; }))
    throw Error("", fmt::format("no scheme can be simulated: {}", schemes.front().chosen.no_layout_reason));
}

}  // namespace

bool Comparison::is_any_feasible() const {
  return std::any_of(schemes.begin(), schemes.end(),
                     [](const ComparedScheme& it) { return it.chosen.is_any(); });
}

std::vector<const ComparedScheme*> Comparison::fastest_first(std::size_t scenario) const {
  std::vector<const ComparedScheme*> order;
  for (const ComparedScheme& it : schemes) order.push_back(&it);
  const auto rate = [&](const ComparedScheme* it) {
    return it->runs.empty() ? 0 : it->runs[scenario].tokens_per_s;
  };
  const auto group = [&](const ComparedScheme* it) {
    if (rate(it) <= 0) return 2;
    return it->runs[scenario].report.stopped.empty() ? 0 : 1;
  };
  std::stable_sort(order.begin(), order.end(), [&](auto* a, auto* b) {
    return group(a) != group(b) ? group(a) < group(b) : rate(a) > rate(b);
  });
  return order;
}

std::vector<std::string> compared_schemes() {
  std::vector<std::string> names = {std::string(planned_scheme)};
  for (const Scheme& it : schemes()) names.emplace_back(it.name);
  return names;
}

Comparison compare(const CompareRequest& request) {
  check_names(request);
  Comparison comparison;
  comparison.schemes = compare_schemes(request);
  comparison.is_interrupted = is_stopped(request.work);
  if (!comparison.is_interrupted) throw_if_input_errors(comparison.schemes);
  set_time_ratios(comparison.schemes);
  if (!comparison.is_interrupted) comparison.speedups = find_speedups(comparison.schemes);
  return comparison;
}

}  // namespace dtfm::api
