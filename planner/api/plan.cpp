#include "planner/api/plan.hpp"

#include <cmath>
#include <memory>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/infinity.hpp"
#include "core/plan/plan_conflicts.hpp"
#include "core/plan/shards.hpp"
#include "core/plan/target.hpp"
#include "core/plan/target_requirements.hpp"
#include "planner/api/checkpoint_period.hpp"
#include "planner/api/time_limit.hpp"

namespace dtfm::api {
namespace {

/// The bound for plans like the best one, or the proven optimum.
std::optional<PlanBound> bound_of(const PlanRequest& request, const FoundPlans& found) {
  if (found.stopped() == search::Stopped::optimal) {
    const double seconds = found.finalist_results.front().seconds;
    return PlanBound{seconds, seconds, "all plans that the planner considers were enumerated"};
  }
  std::optional<PlanBound> bound = lower_bound(request.options, found.best(), found.simulated());
  if (bound && !request.problem.job.automatic.is_empty())
    bound->method = "of plans with these decisions: " + bound->method;
  return bound;
}

void add_explanation(const PlanRequest& request, const Work& work, PlanAnswer& answer) {
  if (!request.explains) return;
  answer.explanation = explain_plan(answer.finalists.front().candidate, work);
  answer.unfinished.explanation = !answer.explanation;
}

/// What trainers make of the plan, unless it is made for one or was not simulated.
void add_target_times(const Work& work, PlanAnswer& answer) {
  if (answer.problem.job.target || answer.simulated().empty()) return;
  try {
    answer.targets = time_on_targets(answer.problem, answer.plan, work);
  } catch (const WorkStopped&) {
    answer.unfinished.target_times = true;
  }
}

std::vector<Finalist> finalists_of(const FoundPlans& found) {
  std::vector<Finalist> finalists;
  for (const search::PlanCandidate& it : found.plans) finalists.push_back({it});
  for (std::size_t i = 0; i < found.finalist_results.size(); ++i) {
    finalists[i].simulated = found.finalist_results[i].simulated;
    finalists[i].sensitivity = found.finalist_results[i].sensitivity;
  }
  return finalists;
}

PlanAnswer plan_by_iteration_time(const PlanRequest& request) {
  if (const Job& job = request.problem.job; job.target) check_trainable(traits(*job.target), job);
  FoundPlans found = find_plans(request);
  const search::SearchOptions& common = request.options.common;
  if (common.ranks) common.ranks->leave();  // the rest is computed by the root, or by what replaces it
  const search::IterationSearchResult& searched = found.found;
  PlanAnswer answer = answer_of(found.best(), request.options.objective);
  answer.search = {request.strategy,  common.seed,          searched.evaluations,
                   searched.stopped,  searched.convergence, common.prove,
                   searched.unusable, searched.unpriced,    searched.discarded};
  answer.shortage = searched.shortage;
  answer.simulation = found.simulation;
  answer.simulation_error = found.simulation_error;
  answer.finalists = finalists_of(found);
  if (!found.finalist_results.empty()) {
    answer.seconds = found.finalist_results.front().seconds;
    answer.paid_share = found.finalist_results.front().paid_share;
  }
  answer.checkpoint_period = found.checkpoint_period();
  answer.fastest_undisturbed = found.fastest_undisturbed;
  answer.interval = found.interval;
  if (common.ranks && !common.ranks->is_root() && !common.ranks->is_broken()) return answer;
  const bool is_cut_short =
      searched.stopped == search::Stopped::time_limit || searched.stopped == search::Stopped::interrupted;
  if (!found.fits() && !is_cut_short)
    answer.feasible_changes = search::feasible_changes(request.problem, request.options, request.untargeted);
  if (request.options.warm)
    answer.warm_start = {request.running_plan, request.options.warm->horizon_s,
                         compare_with_running(request.options, found)};
  if (found.fits() && !is_stopped(common)) answer.lower_bound = bound_of(request, found);
  add_explanation(request, until_time_limit(common, explanation_grace_s), answer);
  add_target_times(until_time_limit(common, explanation_grace_s), answer);
  if (found.front) answer.front = {std::move(*found.front), std::move(found.pareto_results)};
  return answer;
}

SimulationStatus score_status(const FinalistResult& result, const Work& work) {
  if (is_stopped(work)) return SimulationStatus::interrupted;
  return result.error.empty() ? SimulationStatus::done : SimulationStatus::failed;
}

/// Evaluates the plan with its own settings.
search::PlanCandidate evaluate(const PlanRequest& request, const Plan& plan) {
  Problem problem = request.problem;
  problem.job.automatic = {};
  problem.job.parallelism.tensor = plan.tensor;
  problem.job.execution = plan.execution;
  const auto network = std::make_shared<const cost::NetworkCost>(problem.topology, problem.constants);
  const auto job =
      std::make_shared<const search::DecidedJob>(problem, problem.job, stage_sizes(plan), network);
  for (const int device : pipeline_major(plan))
    if (const std::string& unknown = job->model.unknown(device); !unknown.empty()) throw Error("", unknown);
  const search::PlanScore score(request.options.objective, problem.topology);
  return search::with_planned_orders(search::evaluate_plan(job, plan, score), problem.job, score);
}

/// Simulates the plan under all scenarios. Adds nothing but the status if that is not possible.
void simulate_given(const PlanRequest& request, const GivenPlan& given, const Work& work,
                    PlanAnswer& answer) {
  Finalist& finalist = answer.finalists.front();
  if (!answer.fits()) {
    answer.simulation = SimulationStatus::out_of_memory;
    return;
  }
  std::vector<NamedScenario> scenarios = request.scenarios;
  if (given.checkpoint_period_s)
    for (NamedScenario& it : scenarios)
      it = with_checkpoint_period(std::move(it), *given.checkpoint_period_s);
  FinalistResult result = simulate_finalists({finalist.candidate}, scenarios, request.robust, work).front();
  choose_checkpoint_period(finalist.candidate, scenarios, request.robust, work, result);
  if (given.checkpoint_period_s)
    result.checkpoint_period = {*given.checkpoint_period_s, PeriodSource::plan_file};
  answer.simulation = score_status(result, work);
  if (answer.simulation == SimulationStatus::failed) answer.simulation_error = result.error;
  if (answer.simulation != SimulationStatus::done) return;
  answer.seconds = result.seconds;
  answer.paid_share = result.paid_share;
  answer.checkpoint_period = result.checkpoint_period;
  finalist.simulated = std::move(result.simulated);
  if (std::isfinite(result.seconds))
    finalist.sensitivity = simulate_sensitivity({finalist.candidate}, work).front();
  answer.interval = prediction_interval(finalist.candidate, request.spread, finalist.simulated, work.stop);
}

/// The objective of a plan whose iterations take `seconds`, without migration: s, USD, or device-seconds.
/// `paid_share`: FinalistResult::paid_share.
double objective_value(Objective objective, const search::PlanCandidate& candidate, double seconds,
                       double paid_share) {
  const search::PlanScore score(objective, candidate.job->problem.topology);
  const double paid = traits(objective).is_money ? paid_share : 1;
  return score.of(seconds, score.total_weight(candidate.plan) * paid, candidate.egress_usd);
}

/// What the planner would do instead: the best plan so far, compared by estimates, if there was not enough
/// time to simulate one. Empty if no plan fits in memory or all simulations failed.
std::optional<Advice> advice_for(PlanRequest request, const GivenPlan& given, const PlanAnswer& answer) {
  if (given.brings_job) request.problem.job.execution.flush.reset();
  const FoundPlans found = find_plans(request);
  const bool is_estimate =
      found.simulation == SimulationStatus::interrupted || found.simulation == SimulationStatus::late;
  if (!found.fits() || (found.finalist_results.empty() && !is_estimate)) return std::nullopt;
  const Objective objective = request.options.objective;
  const search::PlanCandidate& candidate = answer.finalists.front().candidate;
  const double best =
      objective_value(objective, found.best(),
                      is_estimate ? found.best().iteration_s : found.finalist_results.front().seconds,
                      is_estimate ? 1 : found.finalist_results.front().paid_share);
  if (!std::isfinite(best)) return std::nullopt;
  const double value = objective_value(
      objective, candidate, is_estimate ? candidate.iteration_s : answer.seconds.value_or(infinity),
      is_estimate ? 1 : answer.paid_share);
  return Advice{finalists_of(found).front(),
                std::isfinite(value) ? std::optional(1 - best / value) : std::nullopt};
}

}  // namespace

PlanAnswer answer_of(const search::PlanCandidate& candidate, Objective objective,
                     const std::vector<SimulatedTimes>& simulated) {
  PlanAnswer answer{simulated_problem(candidate), candidate.plan, objective};
  answer.estimate = estimate_plan(candidate);
  answer.finalists = {{candidate, simulated}};
  return answer;
}

const std::vector<SimulatedTimes>& PlanAnswer::simulated() const {
  static const std::vector<SimulatedTimes> none;
  return finalists.empty() ? none : finalists.front().simulated;
}

search::Stopped PlanAnswer::stopped() const {
  return simulation == SimulationStatus::interrupted ? search::Stopped::interrupted : search.value().stopped;
}

PlanAnswer plan(const PlanRequest& given) {
  PlanRequest request = given;
  search::SearchOptions& common = request.options.common;
  if (!common.begin) common.begin = now_of(common.ranks);
  if (request.question && common.ranks) common.ranks->leave();  // every rank answers alone
  if (request.question)
    return request.question->kind == QuestionKind::smallest_cluster ? plan_smallest_cluster(request)
                                                                    : plan_least_bandwidth(request);
  return request.options.objective == Objective::comm_cost ? plan_by_comm_cost(request)
                                                           : plan_by_iteration_time(request);
}

PlanAnswer score(const PlanRequest& request, const GivenPlan& given) {
  if (request.options.objective == Objective::comm_cost) return score_by_comm_cost(request, given);
  check_no_conflict(given.plan, request.problem.job);
  const search::SearchOptions& common = request.options.common;
  const Work work{common.threads, nullptr, common.stop};
  PlanAnswer answer = answer_of(evaluate(request, given.plan), request.options.objective);
  answer.is_given = true;
  answer.reader_notes = given.notes;
  answer.undecided = given.undecided;
  add_explanation(request, work, answer);
  simulate_given(request, given, work, answer);
  add_target_times(work, answer);
  if (request.advises && !is_stopped(work)) answer.advice = advice_for(request, given, answer);
  answer.unfinished.advice =
      request.advises && (answer.advice ? answer.advice->plan.simulated.empty() : is_stopped(work));
  return answer;
}

}  // namespace dtfm::api
