#include "planner/search/iteration_time/iteration_search.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/target.hpp"
#include "core/plan/virtual_stages.hpp"
#include "planner/search/iteration_time/annealing_rounds.hpp"
#include "planner/search/iteration_time/decision_search.hpp"
#include "planner/search/iteration_time/plan_codec.hpp"
#include "planner/search/iteration_time/plan_screening.hpp"
#include "planner/search/iteration_time/search_state.hpp"
#include "planner/search/iteration_time/too_slow_devices.hpp"

namespace dtfm::search {
namespace {

constexpr std::size_t min_planned = 32;  // at least so many plans get planned orders; chosen by hand

std::string describe_available(const DecidedJob& job) {
  const Job& of = job.problem.job;
  const std::string target =
      of.target
          ? fmt::format("; target {} requires {} or more stages{}{}", name_of(*of.target), min_stages(of),
                        traits(*of.target).filled_1f1b ? ", with 1f1b at most as many as micro-batches" : "",
                        traits(*of.target).tied_pipelines ? "" : ", one if the embedding is tied")
          : "";
  return fmt::format(
      "there are {} devices, {} layers and {} micro-batches{}{}{}",
      job.tensor_groups.size() * at(job.model.stages.devices()), job.model.stages.layers(),
      micro_batch_count(job.problem.job),
      requires_uniform_pipelines(job) ? "; uniform pipelines require equal numbers of micro-batches" : "",
      job.model.chunks > 1
          ? "; interleaved requires micro-batches in multiples of stages, and a layer per chunk"
          : "",
      target);
}

class IterationSearch {
 public:
  IterationSearch(const Problem& problem, const IterationSearchOptions& options) : state_(problem, options) {}

  IterationSearchResult run() {
    const DecidedJobPtr first = state_.decisions.first();
    result_.unusable = state_.decisions.unusable();
    result_.unpriced = state_.score.unpriced();
    if (state_.options.warm) offer_warm_start(*state_.options.warm, *first);
    least_ = least_memory(state_.decisions, state_.options.limits);
    if (least_.shortage) decision_search_.offer_least_memory(least_);
    if (!least_.shortage || state_.pool.empty()) search(first);
    finish();
    return std::move(result_);
  }

 private:
  void search(const DecidedJobPtr& first) {
    screen(first);
    if (state_.pool.empty() && !state_.discarded.empty()) throw Error("", state_.discarded.front());
    if (state_.pool.empty()) throw NoSuchShape(describe_available(*first));
    exclude_slow_devices(*first);
    if (state_.is_over()) return;
    if (state_.decisions.has_undecided()) decision_search_.decide();
    anneal_in_rounds(state_, decision_search_);
  }

  /// Screens all shapes with the decisions that few shapes suggest, and with the first ones.
  void screen(const DecidedJobPtr& first) {
    if (state_.decisions.has_undecided()) decision_search_.decide_early(first, least_);
    const DecidedJobPtr early = state_.pool.empty() ? first : state_.pool.best().job;
    screening_.screen_coarse_grid(early);
    if (!state_.decisions.has_undecided() && !state_.pool.empty())
      decision_search_.offer_least_memory(least_);
    screening_.screen_near_best(early);
    if (early != first && !state_.is_over()) screening_.screen_shapes(first);
  }

  /// Offers the running plan first, so that others have to be better.
  void offer_warm_start(const WarmStart& warm, const DecidedJob& first) {
    const DecidedJobPtr job = state_.decisions.decide_like(first, warm.job, warm.plan);
    if (!job) return;
    const PlanScore score = state_.score.with_own_count();
    // The search moves whole stages and layers between them, so it starts from an even split over chunks.
    const Plan even = without_planned_orders(without_virtual_layers(warm.plan));
    const bool has_same_chunks = stage_chunks(warm.plan.execution) == job->model.chunks;
    result_.unchanged = unchanged_plan(has_same_chunks ? warm.plan : even, job, state_.options.limits, score);
    if (result_.unchanged && without_virtual_layers(result_.unchanged->plan) == result_.unchanged->plan &&
        without_planned_orders(result_.unchanged->plan) == result_.unchanged->plan &&
        uses_tensor_groups(warm.plan, *job))
      state_.keep(*result_.unchanged);
    // The first repair is completed as far as the search may go on until a plan fits.
    const auto given = state_.options.common.evaluations;
    const auto is_spent = [&] { return score.evaluated() >= state_.budget.left(); };
    const auto stop = [&] { return state_.must_stop() || (given && score.evaluated() >= *given); };
    std::vector<PlanCandidate> repaired =
        repaired_plans(even, job, state_.options.limits, score.with_stop(is_spent), stop);
    state_.budget.count(score.evaluated());
    for (PlanCandidate& candidate : repaired) state_.keep(std::move(candidate));
    state_.record_convergence();
  }

  /// Restarts the search without devices that no better plan can use, so that they do not affect it. Only for
  /// iteration time, because slow devices may be cheap, and not in a warm start, because the running plan may
  /// need them.
  void exclude_slow_devices(const DecidedJob& job) {
    const bool is_time = !traits(state_.options.objective).device_weight;
    if (!is_time || state_.options.keeps_pareto_front || state_.options.warm || state_.is_over() ||
        !state_.pool.has_fitting())
      return;
    // Of a plan that is better under churn, the iteration may take longer, but not longer than the score.
    const double longest_s =
        state_.options.churn.empty() ? state_.pool.best().iteration_s : state_.pool.best().score;
    const auto slow = too_slow_devices(job, state_.decisions.undecided_job(), longest_s);
    if (slow.empty()) return;
    best_before_exclusion_ = state_.pool.best();
    state_.forget_plans();
    state_.decisions.exclude(slow);
    screen(state_.decisions.first());
  }

  void minimize_finalist_migration() {
    const int count = static_cast<int>(result_.finalists.size());
    const long long most = state_.budget.left() / count;
    const auto task = [&](int i) {
      if (most == 0) return EvaluatedPlans{{result_.finalists[at(i)]}, 0};
      const PlanScore score = state_.score.with_own_count();
      const auto stop = [&] {
        return state_.is_interrupted() || state_.is_late(1 - simulation_time_share) ||
               score.evaluated() >= most - 1;  // the last one is that of the result
      };
      PlanCandidate plan = minimize_migration(result_.finalists[at(i)], score, stop);
      return EvaluatedPlans{{std::move(plan)}, score.evaluated()};
    };
    DecidedJobs jobs;
    for (const PlanCandidate& it : result_.finalists) jobs.push_back(it.job);
    const auto minimized = distributed_map(count, state_.options.common, task, &jobs);
    result_.finalists.clear();
    for (const EvaluatedPlans& it : minimized) {
      result_.finalists.push_back(it.plans.front());
      result_.evaluations += it.evaluations;
    }
  }

  /// Inserts the plan at the front, so that it comes first among equally good plans.
  void insert_finalist(const PlanCandidate& unchanged) {
    auto& finalists = result_.finalists;
    std::erase_if(finalists, [&](const PlanCandidate& it) {
      return it.job == unchanged.job && it.plan == unchanged.plan;
    });
    finalists.insert(finalists.begin(), unchanged);
    if (static_cast<int>(finalists.size()) > std::max(2, state_.options.finalists)) finalists.pop_back();
  }

  /// The search estimates plans without orders of their own. Planned orders may be several per cent faster,
  /// so more plans than finalists get them, and the finalists are chosen from these.
  void plan_orders_of_finalists() {
    const std::size_t limit = at(state_.options.finalists);
    result_.finalists = state_.pool.finalists(state_.options.warm ? limit : std::max(limit, min_planned));
    if (state_.options.warm) minimize_finalist_migration();
    PlanPool planned(result_.finalists.size());
    for (PlanCandidate& it : result_.finalists)
      planned.keep(with_planned_orders(std::move(it), state_.decisions.undecided_job(), state_.score));
    result_.finalists = planned.finalists(limit);
  }

  void finish() {
    if (best_before_exclusion_) state_.pool.keep(*best_before_exclusion_);
    result_.evaluations = state_.budget.evaluated();
    result_.convergence = std::move(state_.convergence);
    result_.front = state_.pareto_front.plans();
    plan_orders_of_finalists();
    if (state_.best_undisturbed)
      result_.fastest_undisturbed =
          with_planned_orders(*state_.best_undisturbed, state_.decisions.undecided_job(), state_.score);
    result_.discarded = state_.discarded;
    if (result_.unchanged) {
      result_.unchanged =
          with_planned_orders(*std::move(result_.unchanged), state_.decisions.undecided_job(), state_.score);
      insert_finalist(*result_.unchanged);
    }
    std::stable_sort(result_.finalists.begin(), result_.finalists.end(), is_better);
    if (result_.finalists.front().deficit_bytes > 0)
      result_.finalists.resize(1);
    else
      std::erase_if(result_.finalists, [](const PlanCandidate& it) { return it.deficit_bytes > 0; });
    if (state_.is_interrupted())
      result_.stopped = Stopped::interrupted;
    else if (state_.must_stop())
      result_.stopped = Stopped::time_limit;
    else if (result_.finalists.front().deficit_bytes > 0)
      result_.stopped = Stopped::no_fit;
    else if (state_.budget.is_spent())
      result_.stopped = Stopped::evaluations;
    result_.shortage = least_.shortage;
  }

  SearchState state_;
  PlanScreening screening_{state_};
  DecisionSearch decision_search_{state_, screening_};
  LeastMemory least_;
  std::optional<PlanCandidate> best_before_exclusion_;
  IterationSearchResult result_;
};

}  // namespace

IterationSearchResult search_iteration(const Problem& problem, const IterationSearchOptions& options) {
  return IterationSearch(problem, options).run();
}

}  // namespace dtfm::search
