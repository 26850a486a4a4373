#include "planner/search/iteration_time/plan_pool.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/base/index.hpp"
#include "core/plan/shards.hpp"
#include "core/plan/target.hpp"

namespace dtfm::search {
namespace {

constexpr int max_per_shape_and_job = 3;  // plans of one shape and job
/// Plans with a higher estimate, relative to the best, are not chosen because they differ. Chosen by hand:
/// most estimates are within 10 % of the simulator where links are shared (docs/validation.md).
constexpr double max_finalist_ratio = 1.15;

/// Whether the plans have the same settings, except for those that a single pipeline does not need: gradient
/// synchronization and sharding of the optimizer.
bool have_same_effective_execution(const PlanCandidate& a, const PlanCandidate& b) {
  if (a.plan.pipelines.size() > 1 || b.plan.pipelines.size() > 1) return a.plan.execution == b.plan.execution;
  ExecutionConfig execution = a.plan.execution;
  execution.gradient_sync = b.plan.execution.gradient_sync;
  if (!requires_single_devices(a.job->problem.job) && !requires_single_devices(b.job->problem.job))
    execution.optimizer_sharding = b.plan.execution.optimizer_sharding;
  return execution == b.plan.execution;
}

bool have_same_effective_job(const PlanCandidate& a, const PlanCandidate& b) {
  return a.job == b.job || (a.plan.pipelines.size() == 1 && a.job->max_degrees == b.job->max_degrees &&
                            a.plan.tensor == b.plan.tensor && have_same_effective_execution(a, b));
}

bool have_same_shape_and_job(const PlanCandidate& a, const PlanCandidate& b) {
  return a.shape() == b.shape() && have_same_effective_job(a, b);
}

/// The number of devices of each GPU model at each site.
std::map<std::pair<int, int>, int> device_kinds(const PlanCandidate& it) {
  std::map<std::pair<int, int>, int> counts;
  for (const int device : pipeline_major(it.plan)) {
    const Device& of = it.job->problem.topology->devices[at(device)];
    ++counts[{of.site, of.gpu}];
  }
  return counts;
}

/// Whether the plans have the same layout, schedule, recomputation and kinds of devices, so that estimates of
/// both probably have the same error.
bool are_similar(const PlanCandidate& a, const PlanCandidate& b) {
  return a.shape() == b.shape() && a.plan.execution.schedule == b.plan.execution.schedule &&
         a.plan.execution.chunks == b.plan.execution.chunks &&
         a.plan.execution.recomputation == b.plan.execution.recomputation &&
         tensor_degrees(a.plan) == tensor_degrees(b.plan) && device_kinds(a) == device_kinds(b);
}

bool have_same_layers(const Plan& a, const Plan& b) {
  return std::equal(a.pipelines.begin(), a.pipelines.end(), b.pipelines.begin(), b.pipelines.end(),
                    [](const Pipeline& one, const Pipeline& other) {
                      return one.micro_batches == other.micro_batches &&
                             std::equal(one.stages.begin(), one.stages.end(), other.stages.begin(),
                                        other.stages.end(),
                                        [](const Stage& x, const Stage& y) { return x.layers == y.layers; });
                    });
}

/// Whether the plans differ only in interchangeable devices, or in settings without effect.
bool are_equivalent(const PlanCandidate& a, const PlanCandidate& b) {
  constexpr double rounding = 1e-9;
  return std::abs(a.score - b.score) <= rounding * b.score && have_same_effective_execution(a, b) &&
         have_same_layers(a.plan, b.plan) && are_similar(a, b);
}

/// Plans for thousands of devices are large, so only the chosen ones are copied.
using PlanPointers = std::vector<const PlanCandidate*>;

PlanPointers pointers_to(const std::vector<PlanCandidate>& plans) {
  PlanPointers result;
  for (const PlanCandidate& it : plans) result.push_back(&it);
  return result;
}

std::vector<PlanCandidate> copies_of(const PlanPointers& plans) {
  std::vector<PlanCandidate> result;
  for (const PlanCandidate* it : plans) result.push_back(*it);
  return result;
}

/// The first plan of every class of `is_same` comes before all others; at most `limit` plans.
template <class IsSame>
PlanPointers diverse_first(const PlanPointers& plans, const IsSame& is_same, std::size_t limit) {
  PlanPointers first, others;
  for (const PlanCandidate* it : plans) {
    const bool seen = std::any_of(first.begin(), first.end(),
                                  [&](const PlanCandidate* other) { return is_same(*it, *other); });
    (seen ? others : first).push_back(it);
  }
  first.insert(first.end(), others.begin(), others.end());
  if (first.size() > limit) first.resize(limit);
  return first;
}

}  // namespace

void PlanPool::keep(PlanCandidate candidate) {
  int same = 0;
  for (auto it = plans_.begin(); it != plans_.end(); ++it) {
    if (!have_same_shape_and_job(*it, candidate)) continue;
    // Plans that differ in their flushes only count as the same.
    if (it->plan.pipelines == candidate.plan.pipelines || ++same == max_per_shape_and_job) {
      if (!is_better(candidate, *it)) return;
      plans_.erase(it);
      break;
    }
  }
  const auto position = std::find_if(plans_.begin(), plans_.end(),
                                     [&](const PlanCandidate& it) { return is_better(candidate, it); });
  plans_.insert(position, std::move(candidate));
  if (plans_.size() > limit_) plans_.pop_back();
}

std::vector<std::shared_ptr<const DecidedJob>> PlanPool::best_jobs(std::size_t limit) const {
  std::vector<std::shared_ptr<const DecidedJob>> jobs;
  for (const PlanCandidate& it : plans_)
    if (jobs.size() < limit && std::find(jobs.begin(), jobs.end(), it.job) == jobs.end())
      jobs.push_back(it.job);
  return jobs;
}

std::vector<Shape> PlanPool::best_shapes(const DecidedJob& job, std::size_t limit) const {
  std::vector<Shape> shapes;
  for (const PlanCandidate& it : plans_)
    if (it.job.get() == &job && shapes.size() < limit &&
        std::find(shapes.begin(), shapes.end(), it.shape()) == shapes.end())
      shapes.push_back(it.shape());
  return shapes;
}

std::vector<PlanCandidate> PlanPool::best_diverse(std::size_t limit) const {
  return copies_of(diverse_first(pointers_to(plans_), have_same_shape_and_job, limit));
}

/// Half of them the best of their kind, the others the best of all.
std::vector<PlanCandidate> PlanPool::finalists(std::size_t limit) const {
  PlanPointers distinct;
  for (const PlanCandidate& it : plans_)
    if (std::none_of(distinct.begin(), distinct.end(),
                     [&](const PlanCandidate* other) { return are_equivalent(it, *other); }))
      distinct.push_back(&it);
  const auto far = std::find_if(distinct.begin(), distinct.end(), [&](const PlanCandidate* it) {
    return it->deficit_bytes > 0 || it->score > max_finalist_ratio * best().score;
  });
  PlanPointers chosen = diverse_first({distinct.begin(), far}, are_similar, (limit + 1) / 2);
  const auto have_same_pipelines = [](const PlanCandidate& a, const PlanCandidate& b) {
    return a.plan.pipelines == b.plan.pipelines;
  };
  for (const PlanCandidate* it : diverse_first(distinct, have_same_pipelines, distinct.size())) {
    if (chosen.size() >= limit) break;
    if (std::none_of(chosen.begin(), chosen.end(), [&](const PlanCandidate* other) {
          return other->job == it->job && other->plan == it->plan;
        }))
      chosen.push_back(it);
  }
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const PlanCandidate* a, const PlanCandidate* b) { return is_better(*a, *b); });
  return copies_of(chosen);
}

std::vector<PlanCandidate> PlanPool::best_per_job(std::size_t limit) const {
  const auto is_same = [](const PlanCandidate& a, const PlanCandidate& b) { return a.job == b.job; };
  return copies_of(diverse_first(pointers_to(plans_), is_same, limit));
}

std::vector<PlanCandidate> PlanPool::best_per_shape(std::size_t limit) const {
  const auto is_same = [](const PlanCandidate& a, const PlanCandidate& b) { return a.shape() == b.shape(); };
  const PlanPointers diverse = diverse_first(pointers_to(plans_), have_same_shape_and_job, plans_.size());
  return copies_of(diverse_first(diverse, is_same, limit));
}

}  // namespace dtfm::search
