#include "planner/api/enumeration.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "planner/core/index.hpp"
#include "planner/search/iteration_time/enumeration.hpp"

namespace dtfm::api {
namespace {

bool supports_enumeration(const PlanRequest& request) {
  const search::IterationSearchOptions& options = request.options;
  const bool is_nominal = request.scenarios.size() == 1 && is_nominal_scenario(request.scenarios.front());
  return options.objective == Objective::iteration_time && is_nominal && !options.warm &&
         !options.keeps_pareto_front && !options.common.evaluations;
}

search::EnumerationLimits enumeration_limits(bool prove) {
  constexpr int longer = 20;
  search::EnumerationLimits limits;
  if (!prove) return limits;
  limits.pipelines *= longer;
  limits.steps *= longer;
  limits.bounds *= longer;
  return limits;
}

/// True if the caller stops the search, or its time limit has passed.
std::function<bool()> stop_of(const search::SearchOptions& options) {
  return [options, begin = options.begin.value_or(std::chrono::steady_clock::now())] {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    return is_stopped(options) || (options.time_limit && elapsed.count() >= *options.time_limit);
  };
}

}  // namespace

std::optional<PlanResult> plan_by_enumeration(const PlanRequest& request) {
  constexpr std::size_t at_once = 64;             // simulated before bounds are compared again
  constexpr long long first_evaluations = 2'000;  // for a plan to compare bounds with
  const search::IterationSearchOptions& options = request.options;
  const search::EnumerationLimits limits = enumeration_limits(options.common.prove);
  const auto stop = stop_of(options.common);
  if (!supports_enumeration(request) || !search::has_few_pipelines(request.problem, options.limits, limits))
    return std::nullopt;
  PlanRequest first = request;
  first.options.common.evaluations = first_evaluations;
  PlanResult result = search_and_simulate(first);
  if (result.simulation != SimulationStatus::done || !result.completes_iteration()) return std::nullopt;
  double best_s = result.finalist_results.front().seconds;
  const search::Enumeration all =
      search::enumerate_plans(request.problem, options.limits, best_s, limits, stop);
  result.found.evaluations += all.evaluations;
  if (!all.is_complete) return std::nullopt;
  std::vector<search::PlanCandidate> candidates;
  for (auto plan = all.plans.begin(); plan != all.plans.end();) {
    candidates.clear();
    for (; plan != all.plans.end() && candidates.size() < at_once; ++plan)
      if (plan->lower_bound_s < best_s) candidates.push_back(plan->candidate);
    const std::vector<FinalistResult> simulated =
        simulate_finalists(candidates, request.scenarios, request.robust, options.common.threads, stop);
    if (stop()) return std::nullopt;
    for (std::size_t i = 0; i < simulated.size(); ++i) {
      if (!(simulated[i].seconds < best_s)) continue;
      best_s = simulated[i].seconds;
      result.plans.insert(result.plans.begin(), candidates[i]);
      result.finalist_results.insert(result.finalist_results.begin(), simulated[i]);
    }
  }
  const std::size_t most = std::max<std::size_t>(1, at(options.finalists));
  result.plans.erase(result.plans.begin() + std::min(result.plans.size(), most), result.plans.end());
  result.finalist_results.resize(result.plans.size());
  result.found.stopped = search::Stopped::optimal;
  return result;
}

}  // namespace dtfm::api
