#include "planner/api/enumeration.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/settings.hpp"
#include "planner/search/iteration_time/enumeration.hpp"
#include "planner/search/iteration_time/fit_plan.hpp"

namespace dtfm::api {
namespace {

/// Whether plans may recompute layers by stage. Those of an enumeration recompute as few as memory requires,
/// but with more, or with flushes and fewer, a schedule may have room for a faster order.
bool may_recompute_more(const Job& job) {
  const std::span<const RecomputationTraits> all = recomputation_table();
  const auto has_room = [](const ScheduleTraits& it) {
    return it.has_planned_warm_up || it.has_planned_passes || it.forwards_first;
  };
  return std::any_of(all.begin(), all.end(),
                     [&](const RecomputationTraits& it) {
                       return it.is_per_stage() && allows(job, Setting::recompute, it.name);
                     }) &&
         std::any_of(schedule_table().begin(), schedule_table().end(), [&](const ScheduleTraits& it) {
           return has_room(it) && allows(job, Setting::schedule, it.name);
         });
}

/// Bounds assume an iteration barrier: overlapping iterations may take less time.
bool supports_enumeration(const PlanRequest& request) {
  const search::IterationSearchOptions& options = request.options;
  const bool is_nominal = request.scenarios.size() == 1 && is_nominal_scenario(request.scenarios.front());
  return request.problem.job.execution.iteration_barrier && options.objective == Objective::iteration_time &&
         is_nominal && !options.warm && !options.keeps_pareto_front && !options.common.evaluations;
}

constexpr int first_share = 5, prove_factor = 5;

/// The first enumeration has a fifth of the limits, except of pipelines, which every enumeration lists.
search::EnumerationLimits first_limits(search::EnumerationLimits limits) {
  for (long long* limit : {&limits.steps, &limits.bounds, &limits.plans}) *limit /= first_share;
  return limits;
}

search::EnumerationLimits whole_limits(bool prove) {
  search::EnumerationLimits limits;
  for (long long* limit : {&limits.pipelines, &limits.steps, &limits.bounds, &limits.plans})
    *limit *= prove ? prove_factor : 1;
  return limits;
}

void keep_finalists(const search::IterationSearchOptions& options, FoundPlans& result) {
  const std::size_t most = std::max<std::size_t>(1, at(options.finalists));
  if (result.plans.size() <= most) return;
  result.plans.erase(result.plans.begin() + static_cast<std::ptrdiff_t>(most), result.plans.end());
  result.finalist_results.resize(most);
}

/// Enumerates all plans, and simulates those that may be faster than the best plan of `result`. The fastest
/// one becomes the first plan of `result`. If there are too many plans, or the caller stops the search,
/// returns false and changes nothing but the number of evaluations.
bool improve_by_enumeration(const PlanRequest& request, const search::EnumerationLimits& limits,
                            FoundPlans& result) {
  constexpr std::size_t at_once = 64;  // simulated before bounds are compared again
  const search::IterationSearchOptions& options = request.options;
  const Work work = until_time_limit(options.common);
  if (result.simulation != SimulationStatus::done || !result.completes_iteration()) return false;
  FoundPlans better = result;
  double best_s = result.finalist_results.front().seconds;
  const search::Enumeration all =
      search::enumerate_plans(request.problem, options.limits, best_s, limits, work.stop);
  result.found.evaluations += all.evaluations;
  if (!all.is_complete) return false;
  const search::PlanScore score(options.objective, request.problem.topology);
  std::vector<search::PlanCandidate> candidates;
  for (auto plan = all.plans.begin(); plan != all.plans.end();) {
    candidates.clear();
    for (; plan != all.plans.end() && candidates.size() < at_once; ++plan)
      if (plan->lower_bound_s < best_s)
        candidates.push_back(search::with_planned_orders(plan->candidate, request.problem.job, score));
    const std::vector<FinalistResult> simulated =
        simulate_finalists(candidates, request.scenarios, request.robust, work);
    if (is_stopped(work)) return false;
    for (std::size_t i = 0; i < simulated.size(); ++i) {
      if (!(simulated[i].seconds < best_s)) continue;
      best_s = simulated[i].seconds;
      better.plans.insert(better.plans.begin(), candidates[i]);
      better.finalist_results.insert(better.finalist_results.begin(), simulated[i]);
    }
  }
  keep_finalists(options, better);
  better.found.evaluations = result.found.evaluations;
  if (!may_recompute_more(request.problem.job)) better.found.stopped = search::Stopped::optimal;
  result = std::move(better);
  return true;
}

}  // namespace

bool can_enumerate(const PlanRequest& request) {
  return supports_enumeration(request) && search::can_enumerate(request.problem, request.options.limits,
                                                                whole_limits(request.options.common.prove));
}

/// The faster the plan that bounds are compared with, the more plans they rule out. Therefore a short search
/// precedes a short enumeration and, if that gives up, the whole search precedes a long one.
FoundPlans search_and_enumerate(const PlanRequest& given) {
  PlanRequest request = given;
  if (!request.options.common.begin) request.options.common.begin = std::chrono::steady_clock::now();
  constexpr long long first_evaluations = 2'000;
  DTFM_ASSERT(request.options.common.ranks == nullptr);
  const search::EnumerationLimits limits = whole_limits(request.options.common.prove);
  PlanRequest first = request;  // its time limit is that of all steps
  first.options.common.evaluations = first_evaluations;
  FoundPlans result = search_and_simulate(first);
  // Without a proof, the whole search may find better plans.
  if (!may_recompute_more(request.problem.job) &&
      improve_by_enumeration(request, first_limits(limits), result))
    return result;
  if (is_stopped(until_time_limit(request.options.common))) {
    result.found.stopped =
        is_stopped(request.options.common) ? search::Stopped::interrupted : search::Stopped::time_limit;
    return result;
  }
  const long long evaluations = result.found.evaluations;
  PlanRequest whole = request;
  if (request.options.common.prove && request.options.common.time_limit)
    *whole.options.common.time_limit /= 2;  // the rest is for the second enumeration
  result = search_and_simulate(whole);
  result.found.evaluations += evaluations;
  improve_by_enumeration(request, limits, result);
  return result;
}

}  // namespace dtfm::api
