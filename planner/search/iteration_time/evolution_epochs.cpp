#include "planner/search/iteration_time/evolution_epochs.hpp"

#include <algorithm>

#include "core/base/rng.hpp"
#include "core/plan/shards.hpp"
#include "planner/search/iteration_time/plan_anneal.hpp"
#include "planner/search/iteration_time/plan_evolution.hpp"
#include "planner/search/iteration_time/search_effort.hpp"

namespace dtfm::search {
namespace {

// Chosen on `benchmark_tiny_problems medium 0 39`.
constexpr int evolution_epochs = 6, evolution_islands = 4;
constexpr double steps_ratio = 4;   // the most steps of all estimates, as a multiple of those of annealing
constexpr int max_idle_epochs = 2;  // without a better plan; ends the evolution

/// The plans of the pool that evolution supports, the best one first.
std::vector<PlanCandidate> plans_to_evolve(const SearchState& state) {
  std::vector<PlanCandidate> plans = state.pool.best_diverse(state.max_kept);
  std::erase_if(plans, [](const PlanCandidate& it) { return !can_evolve(*it.job); });
  if (!plans.empty()) std::iter_swap(plans.begin(), std::min_element(plans.begin(), plans.end(), is_better));
  return plans;
}

/// Jobs of the pool and alternatives of `best` that can be evolved together with it.
DecidedJobs jobs_to_evolve(SearchState& state, const PlanCandidate& best) {
  DecidedJobs jobs = state.pool.best_jobs(state.max_kept);
  const auto add = [&](const DecidedJobPtr& job) {
    if (job && std::find(jobs.begin(), jobs.end(), job) == jobs.end()) jobs.push_back(job);
  };
  for (const DecidedJobPtr& job : state.decisions.alternatives(*best.job)) add(job);
  add(state.decisions.with_any_degree(*best.job));
  const std::vector<int> degrees = tensor_degrees(best.plan);
  std::erase_if(jobs, [&](const DecidedJobPtr& job) {
    const int degree = job->problem.job.parallelism.tensor;
    return !can_evolve(*job) ||
           (!job->has_mixed_degrees() && std::find(degrees.begin(), degrees.end(), degree) == degrees.end());
  });
  return jobs;
}

}  // namespace

void evolve_in_epochs(SearchState& state, std::uint64_t round) {
  if (state.is_over() || state.options.warm || state.options.keeps_pareto_front || !state.pool.has_fitting())
    return;
  int idle_epochs = 0;
  for (int epoch = 0; epoch < evolution_epochs && idle_epochs < max_idle_epochs && !state.is_over();
       ++epoch) {
    std::vector<PlanCandidate> starts = plans_to_evolve(state);
    if (starts.empty()) return;
    const PlanCandidate before = starts.front();
    const DecidedJobs jobs = jobs_to_evolve(state, before);
    std::erase_if(starts, [&](const PlanCandidate& it) {
      return std::find(jobs.begin(), jobs.end(), it.job) == jobs.end();
    });
    constexpr double parts = evolution_epochs * evolution_islands;
    const double wanted = default_effort(before.job->problem.topology->size()).children / parts;
    const long long children = affordable_moves(before, wanted, parts / steps_ratio);
    const auto island = [&](int i, const PlanScore& score) {
      const auto task = (round << 32) + static_cast<std::uint64_t>(epoch * evolution_islands + i);
      Rng rng = Rng::for_task(state.options.common.seed, task);
      return evolve_plans(starts, jobs, state.options.limits, score, children, rng,
                          [&] { return state.must_stop(); });
    };
    state.offer(evolution_islands, jobs, island);
    state.record_convergence();
    idle_epochs = is_better(plans_to_evolve(state).front(), before) ? 0 : idle_epochs + 1;
  }
}

}  // namespace dtfm::search
