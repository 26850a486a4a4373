#include "cli/iteration_plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "cli/explanation.hpp"
#include "cli/iteration_summary.hpp"
#include "cli/judge.hpp"
#include "cli/judged_search.hpp"
#include "cli/main_guard.hpp"
#include "cli/notes.hpp"
#include "cli/output_check.hpp"
#include "cli/pareto.hpp"
#include "cli/plan_decisions.hpp"
#include "cli/plan_words.hpp"
#include "cli/print_result.hpp"
#include "cli/progress.hpp"
#include "cli/put_out.hpp"
#include "cli/warm_start.hpp"
#include "cli/words.hpp"
#include "planner/core/index.hpp"
#include "planner/core/layer_times.hpp"
#include "planner/core/shards.hpp"
#include "planner/cost/iteration_bound.hpp"
#include "planner/cost/work_bound.hpp"
#include "planner/io/atomic_file.hpp"
#include "planner/search/feasible_changes.hpp"
#include "planner/search/iteration_search.hpp"
#include "simulator/calibration/prediction.hpp"
#include "simulator/io/scenario_reader.hpp"

namespace dtfm {
namespace {

std::vector<JudgedScenario> scenarios_of(const PlanOptions& options, const Topology& topology) {
  std::vector<JudgedScenario> scenarios = {{"nominal", {}}};
  for (const std::string& file : options.scenarios) {
    Scenario scenario = read_scenario(file, topology);
    const std::string name = scenario.name.empty() ? file : scenario.name;
    for (const JudgedScenario& other : scenarios)
      if (other.name == name) throw Error(file, fmt::format("there are two scenarios of the name {}", name));
    scenarios.push_back({name, std::move(scenario)});
  }
  return scenarios;
}

IterationSearchOptions search_options(const PlanOptions& options, const Problem& problem,
                                      ProgressPrinter& printer, const InterruptWatch& watch) {
  const Job& job = problem.job;
  IterationSearchOptions result;
  result.common.seed = options.seed;
  result.common.threads = options.threads;
  result.common.evaluations = options.evaluations;
  result.common.time_limit = options.time_limit;
  result.common.begin = std::chrono::steady_clock::now();
  result.common.interrupted = &watch.interrupted();
  result.common.on_progress = [&printer](const Progress& progress) { printer.show(progress); };
  result.limits.stages = options.pipeline        ? options.pipeline
                         : options.pipeline_auto ? std::nullopt
                                                 : job.parallelism.pipeline;
  result.limits.replicas = options.data        ? options.data
                           : options.data_auto ? std::nullopt
                                               : job.parallelism.data;
  result.objective = *objective_named(options.objective);
  result.warm = warm_start_of(options, problem);
  if (options.finalists) result.finalists = *options.finalists;
  result.keeps_front = options.pareto.has_value();
  return result;
}

/// Who asks for the numbers of stages and replicas.
std::string source_of_limits(const PlanOptions& options, const Job& job) {
  if (options.pipeline) return "--pipeline";
  return options.data ? "--data" : "job " + job.name;
}

std::string shape_of_limits(const ShapeLimits& limits) {
  std::string text;
  if (limits.stages) text += fmt::format(" of {}", counted(*limits.stages, "stage"));
  if (limits.replicas)
    text += fmt::format("{}{}", text.empty() ? " of " : " and ", counted(*limits.replicas, "replica"));
  return text;
}

PlanRecord::IterationEstimate estimate_of(const PlanCandidate& candidate) {
  const Problem& problem = candidate.job->problem;
  IterationTimer timer(candidate.job->model, candidate.plan);
  timer.set_flush(candidate.flush);
  const IterationEstimate estimate = timer.estimate();
  double sequences = 0;
  for (const Pipeline& pipeline : candidate.plan.pipelines)
    sequences += static_cast<double>(pipeline.micro_batches) * problem.job.training.micro_batch;
  const double tokens = sequences * sequence_length(problem.job.model);
  PlanRecord::IterationEstimate record;
  record.iteration_time_s = estimate.iteration_s;
  record.tokens_per_s = tokens / estimate.iteration_s;
  record.model_flops_per_s = sequences * candidate.job->model.stages.model_flops() / estimate.iteration_s;
  if (const auto price = price_of(problem.topology, candidate.plan); price && tokens > 0) {
    record.egress_per_million_tokens = candidate.egress_usd / tokens * 1e6;
    record.cost_per_million_tokens =
        price->value() / 3600 / record.tokens_per_s * 1e6 + record.egress_per_million_tokens;
  }
  const double pipelines = estimate.pipelines_s, exchanges = std::max(0.0, estimate.exchanges_s - pipelines);
  record.breakdown_s = {{"pipelines", pipelines},
                        {"exchanges after them", exchanges},
                        {"updates after both", estimate.update_s},
                        {"overhead", estimate.overhead_s}};
  for (const DeviceMemory& it : timer.memory()) record.memory.push_back({it.device, it.needed, it.capacity});
  return record;
}

void put_out(const PlanOptions& options, const Problem& problem, const Plan& plan, const PlanRecord& record,
             const std::string& front = "") {
  put_out(options.output, options.format, plan_json(problem.topology, problem.job, plan, record),
          joined_blocks({summary_text({problem, plan, record}), front}));
}

/// To its file; the words for the summary.
std::string put_front(const PlanOptions& options, const Topology& topology, const ParetoRecord& front) {
  const InterruptHold hold(must_be_whole(std::array{*options.pareto}));
  write_whole_file(*options.pareto, pareto_json(topology, front));
  return pareto_text(front, *options.pareto);
}

PlanRecord::Search search_record(const PlanOptions& options, const IterationSearchResult& result) {
  PlanRecord::Search search{options.strategy,
                            options.seed,
                            result.evaluations,
                            std::string(name_of(result.stopped)),
                            {},
                            options.evaluations.has_value()};
  for (const auto& [evaluations, best] : result.convergence)
    search.convergence.emplace_back(evaluations, best);
  return search;
}

/// The device that lacks most memory.
std::string lacking_device(const PlanCandidate& candidate) {
  IterationTimer timer(candidate.job->model, candidate.plan);
  timer.set_flush(candidate.flush);
  DeviceMemory worst;
  for (const DeviceMemory& it : timer.memory())
    if (it.needed - it.capacity > worst.needed - worst.capacity) worst = it;
  return fmt::format("{} needs {:.3g} GB and has {:.3g} GB",
                     candidate.job->problem.topology.devices[at(worst.device)].id, worst.needed / 1e9,
                     worst.capacity / 1e9);
}

void add_notes(const std::vector<std::string>& notes, PlanRecord& record) {
  record.warnings.insert(record.warnings.end(), notes.begin(), notes.end());
}

/// Scenarios under which a plan that was simulated does nothing.
std::vector<std::string> idle_notes(const PlanRecord::Finalist& finalist) {
  std::vector<std::string> notes;
  for (const auto& it : finalist.simulated)
    if (!std::isfinite(it.mean_s))
      notes.push_back(fmt::format(
          "simulated under scenario {}, the plan completes no iteration or lacks memory", it.scenario));
  return notes;
}

/// Of an iteration on the nominal network; the estimate where it was not simulated.
double nominal_seconds(const PlanRecord& record) {
  if (!record.finalists.empty())
    if (const auto& simulated = record.finalists.front().simulated;
        !simulated.empty() && std::isfinite(simulated.front().mean_s))
      return simulated.front().mean_s;
  return record.iteration->iteration_time_s;
}

/// For what costs so much; the gap is negative where a bug of ours makes the bound too large.
PlanRecord::Bound bound_of(double cost, double value, const std::string& unit, const std::string& method) {
  return {value, unit, (cost - value) / cost, method};
}

/// Of another objective than time, a bound in its unit; `seconds`: of an iteration of `best`.
PlanRecord::Bound weighted_bound(const PlanCandidate& best, const PlanScore& score, Objective objective,
                                 int least_devices, double seconds, double tokens) {
  std::vector<double> weight;
  for (int device = 0; device < best.job->problem.topology.size(); ++device)
    weight.push_back(score.weight(device));
  const bool is_money = objective == Objective::cost_per_token;
  const double unit = is_money ? 1e6 / tokens : 1;
  const double value = least_weighted_time(best.job->model, weight, least_devices) * unit;
  const double cost = score.of(seconds, score.total_weight(best.plan), best.egress_usd) * unit;
  return bound_of(cost, value, std::string(unit_of(objective)),
                  "every layer computed where that costs least, nothing sent, nobody waits");
}

/// For all plans with the decisions of `best`, within the limits; the gap is that of its simulated iteration,
/// where there is one.
void add_bound(const PlanCandidate& best, const IterationSearchOptions& search, bool open,
               PlanRecord& record) {
  constexpr int most_layers = 2000;  // beyond, it takes longer than the search
  if (best.job->model.stages.layers() > most_layers) return;
  const auto& [stages, replicas] = search.limits;
  const IterationBounds bounds(best.job->model);
  const IterationBound of_time = stages && replicas ? bounds.of_shape(*stages, *replicas) : bounds.of_all();
  if (!of_time.fits) return;
  const double seconds = nominal_seconds(record);
  const double tokens = record.iteration->iteration_time_s * record.iteration->tokens_per_s;
  PlanRecord::Bound bound = bound_of(seconds, of_time.value, "s", of_time.method);
  if (search.objective != Objective::iteration_time) {
    const int places = stages.value_or(bounds.least_stages()) * replicas.value_or(1);
    bound = weighted_bound(best, PlanScore(search.objective, best.job->problem.topology), search.objective,
                           places * best.job->model.by_degree.front().tensor(), seconds, tokens);
  }
  if (open) bound.method = "of plans with these decisions: " + bound.method;
  if (bound.gap < -1e-9)
    record.warnings.push_back(
        "the lower bound is above what the plan takes: one of them is wrong, please report it");
  bound.gap = std::max(0.0, bound.gap);
  record.lower_bound = bound;
}

}  // namespace

PlanRecord record_of(const PlanOptions& options, const PlanCandidate& best) {
  PlanRecord record;
  record.objective = options.objective;
  record.iteration = estimate_of(best);
  record.version = DTFM_VERSION;
  const Job& job = best.job->problem.job;
  for (const std::string& note :
       LayerTimes(job, best.job->problem.topology, best.job->problem.roofline, tensor_degrees(best.plan))
           .notes(pipeline_major(best.plan)))
    record.warnings.push_back(note);
  if (options.explain) record.explanation = explanation_of(best, options.threads);
  return record;
}

PlanRecord::Finalist finalist_of(const PlanCandidate& candidate) {
  return {candidate.shape().stages, candidate.shape().replicas,
          candidate.plan.tensor,    static_cast<int>(pipeline_major(candidate.plan).size()),
          candidate.iteration_s,    {}};
}

namespace {

/// Words for shapes that cannot be, by who asked for them.
JudgedSearch search_for(const PlanOptions& options, const Problem& problem,
                        const IterationSearchOptions& search, const std::vector<JudgedScenario>& scenarios,
                        const InterruptWatch& watch) {
  try {
    return judged_search(problem, search, scenarios, options.robust.value_or(Robust::mean), watch);
  } catch (const NoSuchShape& error) {
    throw Error(source_of_limits(options, problem.job),
                fmt::format("no plan{} is possible: {}", shape_of_limits(search.limits), error.what()));
  }
}

/// That no plan fits, and what would make one fit.
std::vector<std::string> lack_notes(const Problem& problem, const IterationSearchOptions& options,
                                    const JudgedSearch& search) {
  const bool was_stopped = search.found.stopped != Stopped::evaluations;
  std::vector<std::string> notes = {
      fmt::format("no plan {}; in the one that lacks least, {}",
                  was_stopped ? "that fits the memory of the devices was found in the time"
                              : "fits the memory of the devices",
                  lacking_device(search.best()))};
  if (was_stopped) return notes;
  const std::vector<std::string> changes = feasible_changes(problem, options);
  if (changes.empty()) notes.push_back("none of the changes that were tried would make one fit");
  for (const std::string& change : changes) notes.push_back("it would fit with " + change);
  return notes;
}

std::vector<PlanRecord::Finalist> finalists_of(const JudgedSearch& search) {
  std::vector<PlanRecord::Finalist> finalists;
  for (const PlanCandidate& plan : search.plans) finalists.push_back(finalist_of(plan));
  for (std::size_t i = 0; i < search.judgements.size(); ++i)
    finalists[i].simulated = search.judgements[i].simulated;
  return finalists;
}

void add_decisions(const JudgedSearch& search, std::vector<PlanRecord::Finalist>& finalists) {
  std::vector<std::vector<PlanRecord::Decision>> decisions;
  for (const PlanCandidate& plan : search.plans) decisions.push_back(decisions_of(plan));
  keep_differences(decisions);
  for (std::size_t i = 0; i < finalists.size(); ++i) finalists[i].decisions = decisions[i];
}

}  // namespace

int plan_by_iteration_time(const PlanOptions& options, const Problem& problem,
                           const std::optional<CalibrationSpread>& spread, InterruptWatch& watch) {
  const std::vector<JudgedScenario> scenarios = scenarios_of(options, problem.topology);
  ProgressPrinter printer(options.quiet, "dtfm-plan");
  const IterationSearchOptions search_for_it = search_options(options, problem, printer, watch);
  watch.keep_result();
  const JudgedSearch search = search_for(options, problem, search_for_it, scenarios, watch);
  const PlanCandidate& best = search.best();
  PlanRecord record = record_of(options, best);
  add_notes(search.notes, record);
  if (!search.fits()) add_notes(lack_notes(problem, search_for_it, search), record);
  record.search = search_record(options, search.found);
  record.finalists = finalists_of(search);
  add_decisions(search, record.finalists);
  if (search_for_it.warm) {
    for (std::size_t i = 0; i < search.plans.size(); ++i)
      record.finalists[i].moving_s = search.plans[i].moving.seconds;
    record.warm_start = warm_record(options, search, *search_for_it.warm);
  }
  add_notes(idle_notes(record.finalists.front()), record);
  if (search.fits() && !watch.interrupted()) {
    add_bound(best, search_for_it, !(problem.job.automatic == Automatic{}), record);
    if (spread)
      record.interval = time_interval(problem_of(best), best.plan, *spread, nominal_seconds(record));
  }
  std::string front;
  if (search.front)
    front = put_front(options, problem.topology,
                      pareto_record(options, *search.front, search.judgements_of_front));
  put_out(options, problem_of(best), best.plan, record, front);
  if (watch.interrupted()) return exit_code::interrupted;
  return search.fits() && search.is_ever_done() ? exit_code::done : exit_code::infeasible;
}

namespace {

/// The job of a plan file says the shape of that plan, and its drains: those are the planner's to choose.
Problem free_problem(const PlanOptions& options, Problem problem) {
  if (options.job) return problem;
  problem.job.parallelism.pipeline.reset();
  problem.job.parallelism.data.reset();
  problem.job.parallelism.flush.reset();
  return problem;
}

/// Of a plan that was made elsewhere; where the simulator says nothing, why, and its time is infinite.
Judgement judgement_of(const PlanCandidate& plan, const std::vector<JudgedScenario>& scenarios,
                       const PlanOptions& options, const InterruptWatch& watch) {
  Judgement none;
  none.seconds = std::numeric_limits<double>::infinity();
  if (plan.lacking > 0) {
    none.error = "the plan does not fit the memory of its devices: " + lacking_device(plan);
    return none;
  }
  Judgement judgement =
      judged({plan}, scenarios, options.robust.value_or(Robust::mean), options.threads, watch.stop()).front();
  if (watch.interrupted()) return none;  // runs that were cut short say nothing
  if (judgement.error.empty()) return judgement;
  none.error = "the plan could not be simulated: " + judgement.error;
  return none;
}

/// What is minimised, as the judge counts.
double value_of(const PlanScore& score, const PlanCandidate& candidate, const Judgement& judgement) {
  return score.of(judgement.seconds, score.total_weight(candidate.plan), candidate.egress_usd);
}

/// Nothing where no plan was simulated.
std::optional<PlanRecord::Advice> advice_on(const PlanOptions& options, const Problem& problem,
                                            const std::vector<JudgedScenario>& scenarios,
                                            const PlanScore& score, double value, InterruptWatch& watch) {
  ProgressPrinter printer(options.quiet, "dtfm-plan");
  const JudgedSearch search =
      search_for(options, problem, search_options(options, problem, printer, watch), scenarios, watch);
  if (search.judgements.empty()) return std::nullopt;
  const double best = value_of(score, search.best(), search.judgements.front());
  if (!std::isfinite(best)) return std::nullopt;
  return PlanRecord::Advice{finalists_of(search).front(),
                            decisions_in_words(problem_of(search.best()).job, search.best().plan),
                            std::isfinite(value) ? std::optional(1 - best / value) : std::nullopt};
}

}  // namespace

int score_by_iteration_time(const PlanOptions& options, const Problem& given,
                            const std::optional<CalibrationSpread>& spread, const Plan& plan,
                            const std::vector<std::string>& notes, InterruptWatch& watch) {
  const std::vector<JudgedScenario> scenarios = scenarios_of(options, given.topology);
  const std::vector<std::string> choices = open_notes(given.job);
  Problem problem = given;
  problem.job.automatic = {};
  problem.job.parallelism.tensor = plan.tensor;
  const auto network = std::make_shared<const NetworkCost>(problem.topology, problem.constants);
  const auto job = std::make_shared<const DecidedJob>(problem, problem.job, tensor_degrees(plan), network);
  for (const int device : pipeline_major(plan))
    if (const std::string& unknown = job->model.unknown(device); !unknown.empty()) throw Error("", unknown);
  const PlanScore score(*objective_named(options.objective), problem.topology);
  const PlanCandidate candidate = priced_plan(job, plan, 0, score);
  PlanRecord record = record_of(options, candidate);
  for (const auto& more : {notes, choices, batch_notes(plan, problem.job)}) add_notes(more, record);
  const bool fits = candidate.lacking <= 0;
  PlanRecord::Finalist& only = record.finalists.emplace_back(finalist_of(candidate));
  Judgement judgement = judgement_of(candidate, scenarios, options, watch);
  if (!judgement.error.empty()) record.warnings.push_back(judgement.error);
  only.simulated = judgement.simulated;
  add_notes(idle_notes(only), record);
  if (spread && !only.simulated.empty())
    record.interval = time_interval(problem_of(candidate), plan, *spread, nominal_seconds(record));
  if (options.advise && !watch.interrupted())
    record.advice = advice_on(options, free_problem(options, given), scenarios, score,
                              value_of(score, candidate, judgement), watch);
  put_out(options, problem_of(candidate), plan, record);
  if (watch.interrupted()) return exit_code::interrupted;
  return fits ? exit_code::done : exit_code::infeasible;
}

}  // namespace dtfm
