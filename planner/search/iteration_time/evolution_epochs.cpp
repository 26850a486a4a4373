#include "planner/search/iteration_time/evolution_epochs.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/index.hpp"
#include "core/base/rng.hpp"
#include "core/plan/shards.hpp"
#include "planner/search/iteration_time/plan_anneal.hpp"
#include "planner/search/iteration_time/plan_evolution.hpp"
#include "planner/search/iteration_time/search_effort.hpp"

namespace dtfm::search {
namespace {

// Chosen on `benchmark_tiny_problems medium 0 39`.
constexpr int evolution_epochs = 6, evolution_islands = 4;
// Additional islands of the first epoch, for numbers of pipelines and for recomputation modes that the best
// plan does not have. Chosen by hand on clusters 19, 34 and 306 of two_flags.py; checked on others.
constexpr std::size_t islands_by_replicas = 3, islands_by_recomputation = 2;
constexpr double steps_ratio = 4;   // the most steps of all estimates, as a multiple of those of annealing
constexpr int max_idle_epochs = 2;  // without a better plan; ends the evolution

/// The plans of a pool that evolution supports, the best one first.
std::vector<PlanCandidate> plans_to_evolve(const PlanPool& pool, std::size_t limit) {
  std::vector<PlanCandidate> plans = pool.best_diverse(limit);
  std::erase_if(plans, [](const PlanCandidate& it) { return !can_evolve(*it.job); });
  if (!plans.empty()) std::iter_swap(plans.begin(), std::min_element(plans.begin(), plans.end(), is_better));
  return plans;
}

/// Jobs of a pool and alternatives of `best` that can be evolved together with it.
DecidedJobs jobs_to_evolve(Decisions& decisions, const PlanPool& pool, std::size_t limit,
                           const PlanCandidate& best) {
  DecidedJobs jobs = pool.best_jobs(limit);
  const auto add = [&](const DecidedJobPtr& job) {
    if (job && std::find(jobs.begin(), jobs.end(), job) == jobs.end()) jobs.push_back(job);
  };
  for (const DecidedJobPtr& job : decisions.alternatives(*best.job)) add(job);
  add(decisions.with_any_degree(*best.job));
  const std::vector<int> degrees = tensor_degrees(best.plan);
  std::erase_if(jobs, [&](const DecidedJobPtr& job) {
    const int degree = job->problem.job.parallelism.tensor;
    return !can_evolve(*job) ||
           (!job->has_mixed_degrees() && std::find(degrees.begin(), degrees.end(), degree) == degrees.end());
  });
  return jobs;
}

struct Island {
  std::vector<PlanCandidate> starts;  // the best one first
  DecidedJobs jobs;
  ShapeLimits limits;
};

/// An island that starts from the best plans of `pool` and obeys `limits`. At least one plan of `pool` must
/// be one that can be evolved.
Island island_of(SearchState& state, const PlanPool& pool, const ShapeLimits& limits) {
  Island result{plans_to_evolve(pool, state.max_kept), {}, limits};
  result.jobs = jobs_to_evolve(state.decisions, pool, state.max_kept, result.starts.front());
  std::erase_if(result.starts, [&](const PlanCandidate& it) {
    return std::find(result.jobs.begin(), result.jobs.end(), it.job) == result.jobs.end();
  });
  return result;
}

/// At most `max_pools` pools: those whose best plans are best, if they fit in memory.
template <class Key>
std::vector<std::pair<Key, PlanPool>> most_promising(const std::map<Key, PlanPool>& pools,
                                                     std::size_t max_pools) {
  std::vector<std::pair<Key, PlanPool>> result;
  for (const auto& it : pools)
    if (it.second.has_fitting()) result.push_back(it);
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& a, const auto& b) { return is_better(a.second.best(), b.second.best()); });
  if (result.size() > max_pools) result.erase(result.begin() + static_cast<long>(max_pools), result.end());
  return result;
}

/// Islands for the most promising numbers of pipelines and recomputation modes that `best` does not have.
std::vector<Island> islands_of_families(SearchState& state, const PlanCandidate& best) {
  std::map<int, PlanPool> by_replicas;
  std::map<Recomputation, PlanPool> by_recomputation;
  const auto keep = [&](auto& pools, const auto& key, const PlanCandidate& it) {
    pools.try_emplace(key, state.max_kept).first->second.keep(it);
  };
  for (const auto& [family, pool] : state.best_by_family)
    for (const PlanCandidate& it : pool.best_diverse(state.max_kept)) {
      if (family.shape.replicas != best.shape().replicas) keep(by_replicas, family.shape.replicas, it);
      if (family.recomputation != best.plan.execution.recomputation)
        keep(by_recomputation, family.recomputation, it);
    }
  std::vector<Island> islands;
  for (const auto& [replicas, pool] : most_promising(by_replicas, islands_by_replicas)) {
    ShapeLimits limits = state.options.limits;
    limits.replicas = replicas;
    islands.push_back(island_of(state, pool, limits));
  }
  for (const auto& [recomputation, pool] : most_promising(by_recomputation, islands_by_recomputation)) {
    Island island = island_of(state, pool, state.options.limits);
    std::erase_if(island.jobs, [kept = recomputation](const DecidedJobPtr& it) {
      return it->problem.job.execution.recomputation != kept;
    });
    islands.push_back(std::move(island));
  }
  return islands;
}

DecidedJobs jobs_of(const std::vector<Island>& islands) {
  DecidedJobs jobs;
  for (const Island& island : islands)
    for (const DecidedJobPtr& job : island.jobs)
      if (std::find(jobs.begin(), jobs.end(), job) == jobs.end()) jobs.push_back(job);
  return jobs;
}

}  // namespace

void evolve_in_epochs(SearchState& state, std::uint64_t round) {
  if (state.is_over() || state.options.warm || state.options.keeps_pareto_front || !state.pool.has_fitting())
    return;
  LayerSplits splits;
  int idle_epochs = 0;
  for (int epoch = 0; epoch < evolution_epochs && idle_epochs < max_idle_epochs && !state.is_over();
       ++epoch) {
    if (plans_to_evolve(state.pool, state.max_kept).empty()) return;
    std::vector<Island> islands(evolution_islands, island_of(state, state.pool, state.options.limits));
    const PlanCandidate before = islands.front().starts.front();
    if (epoch == 0)
      for (Island& it : islands_of_families(state, before)) islands.push_back(std::move(it));
    constexpr double parts = evolution_epochs * evolution_islands;
    const double wanted = default_effort(before.job->problem.topology->size()).children / parts;
    const auto evolve = [&](int i, const PlanScore& score) {
      const auto& [starts, jobs, limits] = islands[at(i)];
      // The task numbers of the additional islands follow those of all epochs, so every island has its own.
      const int block = i < evolution_islands ? epoch : evolution_epochs - 1;
      const auto task = (round << 32) + static_cast<std::uint64_t>(block * evolution_islands + i);
      Rng rng = Rng::for_task(state.options.common.seed, task);
      const long long children = affordable_moves(starts.front(), wanted, parts / steps_ratio);
      return evolve_plans(
          starts, jobs, limits, score, children, rng, [&] { return state.must_stop(); }, &splits);
    };
    state.offer(static_cast<int>(islands.size()), jobs_of(islands), evolve);
    state.record_convergence();
    idle_epochs =
        is_better(plans_to_evolve(state.pool, state.max_kept).front(), before) ? 0 : idle_epochs + 1;
  }
}

}  // namespace dtfm::search
