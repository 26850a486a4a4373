#include "planner/api/find_plans.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/infinity.hpp"
#include "planner/api/checkpoint_period.hpp"
#include "planner/api/churn_plans.hpp"
#include "planner/api/enumeration.hpp"
#include "planner/api/plan_estimate.hpp"
#include "planner/api/time_limit.hpp"
#include "simulator/calibration/prediction.hpp"

namespace dtfm::api {
namespace {

/// The candidates contain the duration of their migration, so the score needs only the horizon.
search::PlanScore simulation_score(const search::IterationSearchOptions& options, const Topology& topology) {
  if (!options.warm) return {options.objective, topology};
  return {options.objective, topology, nullptr, options.warm->horizon_s};
}

/// The objective of a candidate whose iterations take `seconds`; infinite if they never end. Devices that
/// have left cost nothing, but those that wait for them do.
double value_of(const search::PlanCandidate& candidate, double seconds, const FinalistResult& result,
                const PlanRequest& request) {
  if (!std::isfinite(seconds)) return seconds;
  const search::PlanScore score = simulation_score(request.options, request.problem.topology);
  const double paid = traits(request.options.objective).is_money ? result.paid_share : 1;
  return score.of(seconds, score.total_weight(candidate.plan) * paid, candidate.egress_usd,
                  candidate.migration);
}

/// The indices of the candidates by simulated objective. Ties go to fewer devices, for example if as many
/// iterations are completed without a pipeline that hardly ever runs, then to the shorter estimate, then to
/// less sharding. Candidates that the simulator rejected come last.
std::vector<std::size_t> rank_by_simulation(const std::vector<search::PlanCandidate>& candidates,
                                            const std::vector<FinalistResult>& finalist_results,
                                            const PlanRequest& request) {
  std::vector<std::size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto value = [&](std::size_t i) {
    const double simulated =
        value_of(candidates[i], finalist_results[i].seconds, finalist_results[i], request);
    return std::tuple(finalist_results[i].is_preliminary, simulated,
                      std::isfinite(simulated) ? pipeline_major(candidates[i].plan).size() : 0,
                      candidates[i].iteration_s, candidates[i].plan.execution.optimizer_sharding);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return value(a) < value(b); });
  return order;
}

/// Runs that were cut short are not usable, so an interrupt comes first.
SimulationStatus simulation_status(const std::vector<FinalistResult>& finalist_results,
                                   const search::SearchOptions& options) {
  if (is_stopped(options)) return SimulationStatus::interrupted;
  const auto are_all = [&](const auto& condition) {
    return std::all_of(finalist_results.begin(), finalist_results.end(), condition);
  };
  if (are_all([](const FinalistResult& it) { return it.was_stopped; })) return SimulationStatus::late;
  return are_all([](const FinalistResult& it) { return it.was_stopped || !it.error.empty(); })
             ? SimulationStatus::failed
             : SimulationStatus::done;
}

/// Index of the plan whose nominal iterations are shortest; empty without the nominal scenario.
std::optional<std::size_t> fastest_undisturbed(const std::vector<FinalistResult>& results) {
  const auto nominal_s = [](const FinalistResult& it) {
    const bool is_nominal = !it.simulated.empty() && it.simulated.front().scenario == nominal_scenario().name;
    return is_nominal ? it.simulated.front().mean_s : infinity;
  };
  const auto least = std::min_element(
      results.begin(), results.end(),
      [&](const FinalistResult& a, const FinalistResult& b) { return nominal_s(a) < nominal_s(b); });
  if (least == results.end() || !std::isfinite(nominal_s(*least))) return std::nullopt;
  return static_cast<std::size_t>(least - results.begin());
}

/// Candidates with all runs under random scenarios: the best ones of a single run. Chosen by hand.
constexpr std::size_t candidates_with_all_runs = 6;

/// Simulates the candidates, most of them in a single run of each random scenario if they are many.
std::vector<FinalistResult> simulate_by_halving(const std::vector<search::PlanCandidate>& candidates,
                                                const PlanRequest& request, const Work& work) {
  const bool is_random = std::any_of(request.scenarios.begin(), request.scenarios.end(),
                                     [](const NamedScenario& it) { return sim::is_random(it.scenario); });
  if (!is_random || candidates.size() <= candidates_with_all_runs || request.options.keeps_pareto_front)
    return simulate_finalists(candidates, request.scenarios, request.robust, work);
  std::vector<FinalistResult> results =
      simulate_finalists(candidates, request.scenarios, request.robust, work, /*runs=*/1);
  if (is_stopped(work)) return results;
  std::vector<std::size_t> chosen = rank_by_simulation(candidates, results, request);
  chosen.resize(candidates_with_all_runs);
  if (const auto reference = fastest_undisturbed(results);
      reference && std::find(chosen.begin(), chosen.end(), *reference) == chosen.end())
    chosen.push_back(*reference);
  std::vector<search::PlanCandidate> best;
  for (const std::size_t i : chosen) best.push_back(candidates[i]);
  const std::vector<FinalistResult> all_runs =
      simulate_finalists(best, request.scenarios, request.robust, work);
  if (std::any_of(all_runs.begin(), all_runs.end(), [](const FinalistResult& it) { return it.was_stopped; }))
    return results;
  for (FinalistResult& it : results) it.is_preliminary = true;
  for (std::size_t i = 0; i < chosen.size(); ++i) results[chosen[i]] = all_runs[i];
  return results;
}

/// Simulates all candidates within the time limit, the first of them for a moment longer.
std::vector<FinalistResult> simulate_in_time(const std::vector<search::PlanCandidate>& candidates,
                                             const PlanRequest& request) {
  const search::SearchOptions& common = request.options.common;
  const auto simulate = [&](std::span<const search::PlanCandidate> some, const Work& work) {
    return simulate_by_halving({some.begin(), some.end()}, request, work);
  };
  if (!common.time_limit) return simulate(candidates, common);
  std::vector<FinalistResult> results =
      simulate(std::span(candidates).first(1), until_time_limit(common, first_simulation_grace_s));
  for (FinalistResult& it : simulate(std::span(candidates).subspan(1), until_time_limit(common)))
    results.push_back(std::move(it));
  return results;
}

/// Unless there are checkpoints, no plan with a sharded optimizer survives departures (TrainingRun). Throws
/// Error if the job fixes a sharding.
void leave_out_lost_sharding(PlanRequest& request) {
  if (std::all_of(request.scenarios.begin(), request.scenarios.end(),
                  [](const NamedScenario& it) { return survives_sharded(it.scenario); }))
    return;
  Job& job = request.problem.job;
  job.automatic[Setting::optimizer_sharding] = false;
  if (job.execution.optimizer_sharding != OptimizerSharding::none)
    throw Error(
        "", fmt::format("optimizer_sharding {} cannot run under these scenarios, because no other device has "
                        "the optimizer shards of a device that leaves; use a checkpoint with policy "
                        "`restart` or `wait`, or `optimizer_sharding: none`",
                        name_of(job.execution.optimizer_sharding)));
}

/// Whether the plan is compared with the one that is fastest undisturbed, because devices leave. A warm start
/// continues a running plan, and a Pareto front has its own order.
bool has_undisturbed_reference(const PlanRequest& request) {
  return is_under_churn(request.scenarios) && !request.options.warm && !request.options.keeps_pareto_front;
}

/// The finalists that are affordable, and under churn the same with flushes, and the plan that is fastest
/// undisturbed.
std::vector<search::PlanCandidate> simulated_candidates(const PlanRequest& request,
                                                        const search::IterationSearchResult& found) {
  std::vector<search::PlanCandidate> all = affordable_candidates(found.finalists);
  if (!has_undisturbed_reference(request)) return all;
  if (const auto& fastest = found.fastest_undisturbed) {
    const auto is_same = [&](const search::PlanCandidate& it) { return it.plan == fastest->plan; };
    if (std::none_of(all.begin(), all.end(), is_same)) all.push_back(*fastest);
  }
  for (search::PlanCandidate& it : plans_with_flushes(request.problem, request.options.objective, all))
    all.push_back(std::move(it));
  return all;
}

/// The best plans for which the period of checkpoints is chosen by simulation. All plans are compared with
/// Young and Daly's first, so the best one with its own period is very likely among a few; each needs at
/// least four more runs.
constexpr std::size_t plans_with_own_period = 3;

/// Chooses the period of checkpoints, if it is open, for the best plans, and for `reference` to compare them
/// with. Returns the indices of the candidates, best first.
std::vector<std::size_t> choose_periods_and_rank(const PlanRequest& request,
                                                 const std::vector<search::PlanCandidate>& candidates,
                                                 const std::optional<std::size_t>& reference,
                                                 std::vector<FinalistResult>& results) {
  const search::SearchOptions& common = request.options.common;
  std::vector<std::size_t> chosen = rank_by_simulation(candidates, results, request);
  chosen.resize(std::min(chosen.size(), plans_with_own_period));
  if (reference) chosen.push_back(*reference);
  for (const std::size_t i : chosen)
    choose_checkpoint_period(candidates[i], request.scenarios, request.robust, until_time_limit(common),
                             results[i]);
  return rank_by_simulation(candidates, results, request);
}

FoundPlans search_once_and_simulate(const PlanRequest& request) {
  const search::IterationSearchOptions& options = request.options;
  FoundPlans result;
  if (options.keeps_pareto_front) result.front = search::search_pareto(request.problem, options);
  result.found = result.front ? result.front->result : search::search_iteration(request.problem, options);
  const std::vector<search::PlanCandidate>& finalists = result.found.finalists;
  result.plans = {finalists.front()};
  if (!result.fits()) {
    result.simulation = SimulationStatus::out_of_memory;
    return result;
  }
  const std::vector<search::PlanCandidate> candidates =
      result.front ? result.front->candidates : simulated_candidates(request, result.found);
  std::vector<FinalistResult> finalist_results;
  if (!is_stopped(options.common)) finalist_results = simulate_in_time(candidates, request);
  result.simulation = simulation_status(finalist_results, options.common);
  if (result.simulation == SimulationStatus::failed) result.simulation_error = finalist_results.front().error;
  if (result.simulation != SimulationStatus::done) return result;
  result.plans.clear();
  std::optional<std::size_t> reference;
  if (has_undisturbed_reference(request)) reference = fastest_undisturbed(finalist_results);
  for (const std::size_t i :
       choose_periods_and_rank(request, result.front ? finalists : candidates, reference, finalist_results)) {
    const FinalistResult& it = finalist_results[i];
    if (it.was_stopped || it.is_preliminary || result.plans.size() == finalists.size()) continue;
    result.plans.push_back(result.front ? finalists[i] : candidates[i]);
    result.finalist_results.push_back(it);
  }
  if (result.front) result.pareto_results = finalist_results;
  if (reference) result.fastest_undisturbed = finalist_results[*reference].simulated;
  return result;
}

}  // namespace

/// The replicas that are left when one stops may not have the memory for its share of the optimizer state. If
/// no plan survives for this reason, the search is repeated without sharding.
FoundPlans search_and_simulate(const PlanRequest& given) {
  PlanRequest request = given;
  search::IterationSearchOptions& options = request.options;
  if (!options.common.begin) options.common.begin = now_of(options.common.ranks);
  leave_out_lost_sharding(request);
  if (!options.keeps_pareto_front)
    options.churn = churn_of(request.scenarios, request.problem.topology->size());
  const bool may_repeat =
      !options.churn.empty() && request.problem.job.automatic[Setting::optimizer_sharding];
  std::optional<long long>& limit = options.common.evaluations;
  long long kept = 0;  // for the repetition
  if (limit && may_repeat) *limit -= kept = *limit / 2;
  FoundPlans result = search_once_and_simulate(request);
  const bool is_complete = result.simulation == SimulationStatus::done && result.completes_iteration();
  const bool may_complete_unsharded =
      result.simulation == SimulationStatus::done || result.simulation == SimulationStatus::failed;
  Job& job = request.problem.job;
  if (is_complete || !may_complete_unsharded || !may_repeat || is_stopped(until_time_limit(options.common)))
    return result;
  job.automatic[Setting::optimizer_sharding] = false;
  job.execution.optimizer_sharding = OptimizerSharding::none;
  const long long evaluations = result.found.evaluations;
  if (limit) limit = std::max(1LL, kept);
  options.gives_up = true;
  FoundPlans unsharded = search_once_and_simulate(request);
  if (unsharded.simulation == SimulationStatus::done && unsharded.completes_iteration())
    result = std::move(unsharded);
  result.found.evaluations += evaluations;
  return result;
}

namespace {

/// Of the plans within `near_equal` of the best one, moves the one that is best in the mean over all
/// perturbations to the front. The order stays if the best plan is proven optimal; if scenarios say what to
/// expect instead; in a warm start, where another plan would have to be worth its migration; and without
/// sensitivities, which need time.
void choose_least_sensitive(const PlanRequest& request, FoundPlans& result) {
  if (result.simulation != SimulationStatus::done || !result.completes_iteration()) return;
  const search::IterationSearchOptions& options = request.options;
  const auto value = [&](std::size_t i, double rise) {
    const FinalistResult& it = result.finalist_results[i];
    return value_of(result.plans[i], it.seconds * (1 + rise), it, request);
  };
  std::size_t count = 1;
  const double most = value(0, 0) * (1 + request.near_equal);
  const bool has_choice =
      !options.warm && result.stopped() != search::Stopped::optimal &&
      std::all_of(request.scenarios.begin(), request.scenarios.end(), is_nominal_scenario);
  while (has_choice && count < result.plans.size() && value(count, 0) <= most) ++count;
  const std::vector<search::PlanCandidate> best(result.plans.begin(),
                                                result.plans.begin() + static_cast<std::ptrdiff_t>(count));
  const std::vector<Sensitivity> found = simulate_sensitivity(best, until_time_limit(options.common));
  for (std::size_t i = 0; i < count; ++i) result.finalist_results[i].sensitivity = found[i];
  if (std::any_of(found.begin(), found.end(), [](const Sensitivity& it) { return it.empty(); })) return;
  std::vector<double> perturbed;
  for (std::size_t i = 0; i < count; ++i) perturbed.push_back(value(i, mean_rise(found[i])));
  const auto least = std::min_element(perturbed.begin(), perturbed.end()) - perturbed.begin();
  const auto move_to_front = [&](auto& list) {
    std::rotate(list.begin(), list.begin() + least, list.begin() + least + 1);
  };
  move_to_front(result.plans);
  move_to_front(result.finalist_results);
}

}  // namespace

FoundPlans find_plans(const PlanRequest& given) {
  PlanRequest request = given;
  search::SearchOptions& common = request.options.common;
  if (!common.begin) common.begin = now_of(common.ranks);
  const bool enumerates = can_enumerate(request);
  if (enumerates) common.ranks = nullptr;  // every rank plans alone, and may get another result
  FoundPlans result = enumerates ? search_and_enumerate(request) : search_and_simulate(request);
  choose_least_sensitive(request, result);
  if (result.fits() && !is_stopped(common))
    result.interval = prediction_interval(result.best(), request.spread, result.simulated(),
                                          until_time_limit(common, bound_grace_s).stop);
  return result;
}

std::optional<PredictionInterval> prediction_interval(const search::PlanCandidate& candidate,
                                                      const std::optional<CalibrationUncertainty>& spread,
                                                      const std::vector<SimulatedTimes>& simulated,
                                                      const StopFunction& stop) {
  try {
    return sim::time_interval(simulated_problem(candidate), candidate.plan, spread,
                              first_scenario_seconds(candidate, simulated), nullptr, stop);
  } catch (const WorkStopped&) {
    return std::nullopt;
  }
}

}  // namespace dtfm::api
