#include "planner/search/iteration_time/plan_pool.hpp"

#include "core/plan/target.hpp"

#include <algorithm>
#include <utility>

namespace dtfm::search {
namespace {

constexpr int max_per_shape_and_job = 3;  // plans of one shape and job

bool have_same_shape_and_job(const PlanCandidate& a, const PlanCandidate& b) {
  return a.job == b.job && a.shape() == b.shape();
}

/// Whether the plans are the same but for the gradient synchronization and the sharding of the optimizer,
/// which a single pipeline does not need.
bool differ_only_in_unused_sync(const PlanCandidate& a, const PlanCandidate& b) {
  if (a.plan.execution == b.plan.execution) return false;
  if (a.plan.pipelines.size() > 1 || a.plan.pipelines != b.plan.pipelines) return false;
  ExecutionConfig execution = a.plan.execution;
  execution.gradient_sync = b.plan.execution.gradient_sync;
  if (!requires_single_devices(a.job->problem.job) && !requires_single_devices(b.job->problem.job))
    execution.optimizer_sharding = b.plan.execution.optimizer_sharding;
  return execution == b.plan.execution;
}

/// The first plan of every class of `is_same` comes before all others; at most `limit` plans.
template <class IsSame>
std::vector<PlanCandidate> diverse_first(const std::vector<PlanCandidate>& plans, const IsSame& is_same,
                                         std::size_t limit) {
  std::vector<PlanCandidate> first, others;
  for (const PlanCandidate& it : plans) {
    const bool seen = std::any_of(first.begin(), first.end(),
                                  [&](const PlanCandidate& other) { return is_same(it, other); });
    (seen ? others : first).push_back(it);
  }
  first.insert(first.end(), others.begin(), others.end());
  if (first.size() > limit) first.resize(limit);
  return first;
}

}  // namespace

void PlanPool::keep(PlanCandidate candidate) {
  if (std::any_of(plans_.begin(), plans_.end(),
                  [&](const PlanCandidate& it) { return differ_only_in_unused_sync(it, candidate); }))
    return;
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
  return diverse_first(plans_, have_same_shape_and_job, limit);
}

std::vector<PlanCandidate> PlanPool::best_per_job(std::size_t limit) const {
  const auto is_same = [](const PlanCandidate& a, const PlanCandidate& b) { return a.job == b.job; };
  return diverse_first(plans_, is_same, limit);
}

std::vector<PlanCandidate> PlanPool::best_per_shape(std::size_t limit) const {
  const auto is_same = [](const PlanCandidate& a, const PlanCandidate& b) { return a.shape() == b.shape(); };
  return diverse_first(best_diverse(plans_.size()), is_same, limit);
}

}  // namespace dtfm::search
