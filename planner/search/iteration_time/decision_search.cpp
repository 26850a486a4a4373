#include "planner/search/iteration_time/decision_search.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <utility>

#include "core/base/index.hpp"
#include "core/plan/target.hpp"
#include "planner/search/iteration_time/fit_plan.hpp"
#include "planner/search/iteration_time/initial_plans.hpp"

namespace dtfm::search {
namespace {

// Chosen by hand.
constexpr std::size_t varied = 4;             // plans of different shapes, and of different jobs
constexpr std::size_t max_families = 16;      // the best ones, in which other decisions are tried
constexpr std::size_t jobs_per_schedule = 8;  // decided jobs with which other schedules are tried
// Jobs that need least memory: if a plan may fit, and to find the plan that exceeds memory least.
constexpr std::size_t max_least_memory_jobs = 16, max_short_jobs = 3;
// Plans with a higher score, relative to the best, keep their layer cuts. In nine searches, refining them
// never reached 1.2 times the best score, and made no plan fit in memory.
constexpr double max_score_to_refine = 1.25;

/// Shapes for another job, as far as it has tensor-parallel groups and micro-batches: that of a plan, and
/// with as many replicas as the plan has devices for, because the degree may be another one. With partitioned
/// gradients, every replica is a single device.
std::vector<Shape> shapes_for(const DecidedJob& job, const PlanCandidate& from) {
  const int groups = static_cast<int>(job.tensor_groups.size());
  const bool has_stages = !requires_single_devices(job.problem.job);
  const int most_stages = std::min(groups, job.model.stages.layers() / job.model.chunks),
            stages = std::max(1, has_stages ? std::min(from.shape().stages, most_stages) : 1),
            most = std::max(1, std::min(groups / stages, micro_batch_count(job.problem.job))),
            devices = static_cast<int>(pipeline_major(from.plan).size()),
            all = devices / (stages * devices_per_stage(job.problem.job));
  const Shape same{stages, std::clamp(from.shape().replicas, 1, most)};
  const Shape full{stages, std::clamp(all, 1, most)};
  if (same == full) return {same};
  return {same, full};
}

}  // namespace

void add_missing(std::vector<PlanCandidate>& plans, const std::vector<PlanCandidate>& more) {
  for (const PlanCandidate& candidate : more)
    if (std::none_of(plans.begin(), plans.end(), [&](const PlanCandidate& it) {
          return it.job == candidate.job && it.plan == candidate.plan;
        }))
      plans.push_back(candidate);
}

void DecisionSearch::offer_least_memory(const LeastMemory& least) {
  offer_least_memory(least, StageCounts::few, least.shortage ? max_short_jobs : max_least_memory_jobs);
  if (!least.shortage) {
    offer_least_memory(least, StageCounts::others, max_least_memory_jobs);
    refine_best_per_job();
  }
  state_.record_convergence();
}

/// Refines the layer cuts of the best plans of several jobs. Layers are split for all micro-batches in
/// flight, so a plan with flushes may fit with other cuts.
void DecisionSearch::refine_best_per_job() {
  if (state_.pool.has_fitting() || state_.is_over()) return;
  const std::vector<PlanCandidate> best = state_.pool.best_per_job(varied);
  DecidedJobs jobs;
  for (const PlanCandidate& it : best) jobs.push_back(it.job);
  state_.offer(static_cast<int>(best.size()), jobs, [&](int i, const PlanScore& score) {
    return std::vector{refine_layer_cuts(best[at(i)], score)};
  });
}

/// Jobs with a single tensor degree come first, then jobs with groups as large as each host allows.
void DecisionSearch::offer_least_memory(const LeastMemory& least, StageCounts counts, std::size_t most) {
  if (state_.pool.has_fitting() || state_.is_over()) return;
  DecidedJobs jobs, mixed;
  for (std::size_t i = 0; i < std::min(least.jobs.size(), most); ++i) {
    const DecidedJobPtr job = state_.decisions.decide(least.jobs[i]);
    if (!job) continue;
    jobs.push_back(job);
    if (least.shortage) continue;
    for (const DecidedJobPtr& it : state_.decisions.mixed_degrees(*job))
      if (std::find(mixed.begin(), mixed.end(), it) == mixed.end()) mixed.push_back(it);
  }
  jobs.insert(jobs.end(), mixed.begin(), mixed.end());
  for (const DecidedJobPtr& job : jobs) {
    if (state_.pool.has_fitting() || state_.is_over()) return;
    const std::vector<Plan> plans = least_memory_plans(*job, state_.options.limits, counts);
    state_.offer(static_cast<int>(plans.size()), {job}, [&](int plan, const PlanScore& score) {
      return std::vector{fit_plan(job, plans[at(plan)], score)};
    });
  }
}

void DecisionSearch::decide_early(const DecidedJobPtr& first, const LeastMemory& least) {
  screening_.offer_initial_plans(first, sparse_full_shapes(*first), false);
  offer_least_memory(least);
  if (state_.pool.empty() || state_.is_over()) return;
  for (const DecidedJobPtr& job : state_.decisions.alternatives(*first)) {
    if (state_.is_over()) return;
    screening_.offer_initial_plans(job, sparse_full_shapes(*job), false);
  }
  decide_schedule_early();
  decide_degrees_by_gpu();
}

/// Tries the schedules with several of the best decisions so far, because memory depends on both.
void DecisionSearch::decide_schedule_early() {
  for (const DecidedJobPtr& base : state_.pool.best_jobs(jobs_per_schedule))
    for (const DecidedJobPtr& job : state_.decisions.alternatives(*base)) {
      Job same = job->problem.job;
      same.execution.schedule = base->problem.job.execution.schedule;
      same.execution.chunks = base->problem.job.execution.chunks;
      if (decisions_key(same) != decisions_key(base->problem.job)) continue;
      if (state_.is_over()) return;
      screening_.offer_initial_plans(job, sparse_full_shapes(*job), false);
    }
}

/// With partitioned gradients, which are communicated in every micro-batch, more replicas may be slower.
std::vector<Shape> DecisionSearch::sparse_full_shapes(const DecidedJob& job) const {
  if (requires_single_devices(job.problem.job)) return sparse_shapes(job, state_.options.limits);
  std::vector<Shape> shapes = full_shapes(job, state_.options.limits);
  std::erase_if(shapes, [&](const Shape& shape) {
    return !std::has_single_bit(static_cast<unsigned>(shape.stages)) &&
           shape.stages != state_.options.limits.stages;
  });
  return shapes;
}

bool DecisionSearch::try_alternatives() {
  const PlanCandidate before = state_.pool.best();
  struct Try {
    const PlanCandidate* from;
    DecidedJobPtr job;
    std::vector<Shape> shapes;  // without those of tries of the same job before
  };
  std::vector<Try> tries;
  std::set<std::pair<DecidedJobPtr, Shape>> tried;
  std::vector<PlanCandidate> bases = state_.pool.best_per_shape(varied);
  add_missing(bases, state_.pool.best_per_job(varied));
  for (const PlanCandidate& from : bases)
    for (const DecidedJobPtr& job : state_.decisions.alternatives(*from.job)) {
      std::vector<Shape> shapes = shapes_for(*job, from);
      std::erase_if(shapes, [&](const Shape& it) {
        return !is_possible(*job, it, state_.options.limits) || !tried.emplace(job, it).second;
      });
      tries.push_back({&from, job, std::move(shapes)});
    }
  DecidedJobs jobs;
  for (const Try& it : tries) jobs.push_back(it.job);
  state_.offer(static_cast<int>(tries.size()), jobs, [&](int i, const PlanScore& score) {
    std::vector<PlanCandidate> candidates;
    const auto& [from, job, shapes] = tries[at(i)];
    if (auto same = transfer_plan(job, *from, state_.options.limits, score))
      candidates.push_back(std::move(*same));
    for (const Shape& shape : shapes)
      for (PlanCandidate& start : initial_plans(job, shape, score, false, 1))
        candidates.push_back(std::move(start));
    for (PlanCandidate& it : candidates)
      if (before.deficit_bytes > 0 || it.score < max_score_to_refine * before.score)
        it = refine_layer_cuts(std::move(it), score);
    return candidates;
  });
  return is_better(state_.pool.best(), before);
}

/// The best shape depends on the micro-batch: larger ones allow fewer pipelines. So each one is screened
/// with some shapes of its own; with few shapes, also with other recomputation and tensor degrees, which
/// memory depends on too.
void DecisionSearch::screen_micro_batches() {
  const DecidedJobPtr best = state_.pool.best().job;
  const Job& now = best->problem.job;
  const bool are_few =
      possible_shapes(*best, state_.options.limits, fine_ratio).size() <= max_shapes_to_enumerate;
  if (state_.is_over()) return;
  for (const DecidedJobPtr& job : state_.decisions.alternatives(*best)) {
    Job same = job->problem.job;
    same.execution.micro_batch = now.execution.micro_batch;
    if (are_few) {
      same.execution.recomputation = now.execution.recomputation;
      same.execution.recompute_layers = now.execution.recompute_layers;
      same.parallelism.tensor = now.parallelism.tensor;
      same.execution.expert = now.execution.expert;
    }
    if (decisions_key(same) == decisions_key(now))
      screening_.offer_initial_plans(job, sparse_shapes(*job, state_.options.limits), false);
  }
}

void DecisionSearch::decide() {
  std::set<DecidedJobPtr> done = {state_.pool.best().job};
  screen_micro_batches();
  if (!state_.is_over() && done.insert(state_.pool.best().job).second)
    screening_.screen_shapes(state_.pool.best().job);
  for (int round = 0; round < decision_rounds && !state_.is_over() && try_alternatives(); ++round) {
    const DecidedJobPtr best = state_.pool.best().job;
    if (done.insert(best).second) screening_.screen_shapes(best);
    state_.record_convergence();
  }
  if (const DecidedJobPtr base = best_job_that_may_vary_degrees()) {
    for (const DecidedJobPtr& job : state_.decisions.mixed_degrees(*base)) screening_.screen_coarse_grid(job);
    if (const DecidedJobPtr job = state_.decisions.with_any_degree(*best_job_that_may_vary_degrees()))
      screening_.screen_coarse_grid(job);
  }
  decide_degrees_by_gpu();
  decide_by_family();
  const DecidedJobPtr best = best_job_that_may_vary_degrees();
  if (best && best->has_mixed_degrees() && !state_.is_over()) screening_.screen_near_best(best);
}

/// Jobs that differ from `job` in one decision, or in the tensor degrees of some stages.
DecidedJobs DecisionSearch::neighbours(const DecidedJob& job) {
  DecidedJobs jobs = state_.decisions.alternatives(job);
  const auto add = [&](const DecidedJobs& more) { jobs.insert(jobs.end(), more.begin(), more.end()); };
  add(state_.decisions.mixed_degrees(job));
  add(state_.decisions.degrees_by_gpu(job));
  if (const DecidedJobPtr any = state_.decisions.with_any_degree(job)) jobs.push_back(any);
  return jobs;
}

/// Changes one decision at a time in the best plan of each family, as long as that improves the family. A
/// family may become the best only with several decisions that the best plans of other families lack.
void DecisionSearch::decide_by_family() {
  std::vector<std::pair<double, PlanFamily>> promising;
  for (const auto& [family, pool] : state_.best_by_family)
    if (pool.has_fitting()) promising.emplace_back(pool.best().score, family);
  std::sort(promising.begin(), promising.end());
  if (promising.size() > max_families) promising.resize(max_families);
  struct Try {
    PlanCandidate from;
    DecidedJobPtr job;
  };
  std::set<std::pair<DecidedJobPtr, Shape>> tried;  // once, from the first family that reaches it
  std::map<PlanFamily, double> before;
  for (int round = 0; round < decision_rounds && !state_.is_over(); ++round) {
    std::vector<Try> tries;
    DecidedJobs jobs;
    for (const auto& [score, family] : promising) {
      const PlanCandidate from = state_.best_by_family.at(family).best();
      const auto [known, is_first] = before.try_emplace(family, from.score);
      if (!is_first && from.score >= known->second) continue;
      known->second = from.score;
      for (const DecidedJobPtr& job : neighbours(*from.job))
        if (is_possible(*job, family.shape, state_.options.limits) &&
            tried.emplace(job, family.shape).second) {
          tries.push_back({from, job});
          jobs.push_back(job);
        }
    }
    if (tries.empty()) return;
    state_.offer(static_cast<int>(tries.size()), jobs, [&](int i, const PlanScore& score) {
      const auto& [from, job] = tries[at(i)];
      if (auto same = transfer_plan(job, from, state_.options.limits, score))
        return std::vector{*std::move(same)};
      return initial_plans(job, from.shape(), score, false, 1);
    });
    state_.record_convergence();
  }
}

/// The job of the best plan for which `may_vary_degrees` holds, or null if there is none. The overall best
/// plan need not be one, for example because it partitions gradients.
DecidedJobPtr DecisionSearch::best_job_that_may_vary_degrees() const {
  const DecidedJobs jobs = state_.pool.best_jobs(state_.max_kept);
  const auto job = std::find_if(jobs.begin(), jobs.end(), [&](const DecidedJobPtr& it) {
    return state_.decisions.may_vary_degrees(*it);
  });
  return job == jobs.end() ? nullptr : *job;
}

/// Changes the tensor degree on one GPU model at a time, then the other decisions, as long as that helps.
void DecisionSearch::decide_degrees_by_gpu() {
  for (int round = 0; round < decision_rounds && !state_.is_over(); ++round) {
    const DecidedJobPtr before = best_job_that_may_vary_degrees();
    if (!before) return;
    for (const DecidedJobPtr& job : state_.decisions.degrees_by_gpu(*before))
      screening_.offer_initial_plans(job, full_shapes(*job, state_.options.limits), false);
    if (best_job_that_may_vary_degrees() == before || state_.is_over()) return;
    try_alternatives();
    state_.record_convergence();
  }
}

}  // namespace dtfm::search
