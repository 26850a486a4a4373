#include "planner/search/iteration_time/search_state.hpp"

#include <cmath>
#include <utility>

#include "core/base/index.hpp"
#include "core/plan/virtual_stages.hpp"
#include "planner/search/iteration_time/plan_anneal.hpp"
#include "planner/search/iteration_time/plan_evolution.hpp"
#include "planner/search/iteration_time/search_effort.hpp"

namespace dtfm::search {
namespace {

// Chosen by hand: with more groups, annealing finds better plans with the evaluations that families take.
constexpr int max_groups_of_families = 32;
constexpr std::size_t max_kept_by_default = 96, max_kept_by_family = 4;  // chosen by hand

PlanScore score_of(const Problem& problem, const IterationSearchOptions& options,
                   const Decisions& decisions) {
  std::shared_ptr<const ChurnLoss> churn;
  if (!options.churn.empty()) churn = std::make_shared<const ChurnLoss>(problem, options.churn);
  if (!options.warm) return PlanScore(options.objective, problem.topology).with_churn(churn);
  const auto& [plan, job, horizon_s] = *options.warm;
  return PlanScore(options.objective, problem.topology,
                   std::make_shared<const cost::MigrationCost>(problem, decisions.network(), plan,
                                                               stage_chunks(job)),
                   horizon_s)
      .with_churn(churn);
}

EvaluationBudget budget_of(const IterationSearchOptions& options, int devices) {
  const auto given = options.common.evaluations;
  return {given, options.gives_up && given
                     ? *given
                     : std::max(min_evaluations, given.value_or(max_unfit_evaluations(devices)))};
}

/// The most moves, and children if there is an evolution, of a search without limits if no key is open.
long long most_evaluations(const PlanPool& pool, bool may_evolve) {
  const SearchEffort effort = default_effort(pool.best().job->problem.topology->size());
  return static_cast<long long>(effort.moves +
                                (may_evolve && can_evolve(*pool.best().job) ? effort.children : 0));
}

}  // namespace

SearchState::SearchState(const Problem& problem, IterationSearchOptions given)
    : options(std::move(given)),
      max_kept(std::max(max_kept_by_default, at(options.finalists))),
      decisions(problem, PlanScore(options.objective, problem.topology).unpriced()),
      score(score_of(problem, options, decisions)),
      budget(budget_of(options, problem.topology->size())),
      pool(max_kept),
      pareto_front(max_pareto_front_size),
      device_count_(problem.topology->size()) {
  if (!options.common.begin) options.common.begin = now_of(options.common.ranks);
}

bool SearchState::must_stop() const {
  const double search_share = 1 - simulation_time_share - (options.warm ? migration_time_share : 0);
  return is_interrupted() || is_late(search_share);
}

/// Whether the time limit passed so long ago that the search gives up finding a plan that fits in memory.
bool SearchState::is_overdue() const {
  // A quarter of a second screens many shapes for up to 512 devices. Its time is quadratic in them.
  constexpr double extension_s = 0.25, devices = 512;
  const double size = std::max(1.0, device_count_ / devices);
  const auto limit = options.common.time_limit;
  return limit && is_late(1 + extension_s * size * size / *limit);
}

void SearchState::keep(PlanCandidate candidate) {
  if (options.keeps_pareto_front) pareto_front.offer(candidate);
  const auto undisturbed = [&](const PlanCandidate& it) {
    return score.of(it.iteration_s, score.total_weight(it.plan), it.egress_usd, it.migration);
  };
  if (!options.churn.empty() && candidate.deficit_bytes <= 0 &&
      (!best_undisturbed || undisturbed(candidate) < undisturbed(*best_undisturbed)))
    best_undisturbed = candidate;
  if (can_evolve(*candidate.job) && max_tensor_groups(*candidate.job) <= max_groups_of_families)
    best_by_family
        .try_emplace({candidate.shape(), candidate.plan.execution.recomputation}, max_kept_by_family)
        .first->second.keep(candidate);
  pool.keep(std::move(candidate));
  has_plan_ = true;
  if (pool.has_fitting()) budget.set_fitting();
}

void SearchState::record_convergence() {
  if (!pool.has_fitting()) return;
  const double best = pool.best().score;
  if (convergence.empty() || best < convergence.back().cost)
    convergence.push_back({budget.evaluated(), best});
  report_evaluations(budget.evaluated());
}

void SearchState::report(long long asked) {
  const std::unique_lock lock(progress_mutex_, std::try_to_lock);
  if (lock.owns_lock()) report_evaluations(budget.evaluated() + asked * moves_between_stop_checks);
}

void SearchState::report_evaluations(long long evaluations) const {
  if (!options.common.on_progress) return;
  const bool is_open_ended = options.common.time_limit && options.uses_full_budget && !budget.is_limited();
  const long long most = is_open_ended ? 0
                                       : options.common.evaluations.value_or(most_evaluations(
                                             pool, !options.warm && !options.keeps_pareto_front));
  const long long total = most > 0 ? std::max(most, evaluations) : 0;
  options.common.on_progress({evaluations, total, pool.best().iteration_s, 0});
}

}  // namespace dtfm::search
