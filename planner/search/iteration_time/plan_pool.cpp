#include "planner/search/iteration_time/plan_pool.hpp"

#include <algorithm>
#include <utility>

namespace dtfm::search {
namespace {

constexpr int most_alike = 3;  // plans of one shape and job

bool are_of_one_kind(const PlanCandidate& a, const PlanCandidate& b) {
  return a.job == b.job && a.shape() == b.shape();
}

/// The first plan of every class of `is_same` comes before all others; at most `limit` plans.
template <class Alike>
std::vector<PlanCandidate> diverse_first(const std::vector<PlanCandidate>& plans, const Alike& alike,
                                         std::size_t limit) {
  std::vector<PlanCandidate> first, others;
  for (const PlanCandidate& it : plans) {
    const bool seen =
        std::any_of(first.begin(), first.end(), [&](const PlanCandidate& other) { return alike(it, other); });
    (seen ? others : first).push_back(it);
  }
  first.insert(first.end(), others.begin(), others.end());
  if (first.size() > limit) first.resize(limit);
  return first;
}

}  // namespace

void PlanPool::keep(PlanCandidate candidate) {
  int alike = 0;
  for (auto it = plans_.begin(); it != plans_.end(); ++it) {
    if (!are_of_one_kind(*it, candidate)) continue;
    if (it->plan == candidate.plan || ++alike == most_alike) {
      if (!is_better(candidate, *it)) return;
      plans_.erase(it);
      break;
    }
  }
  const auto place = std::find_if(plans_.begin(), plans_.end(),
                                  [&](const PlanCandidate& it) { return is_better(candidate, it); });
  plans_.insert(place, std::move(candidate));
  if (plans_.size() > limit_) plans_.pop_back();
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
  return diverse_first(plans_, are_of_one_kind, limit);
}

std::vector<PlanCandidate> PlanPool::best_per_shape(std::size_t limit) const {
  const auto alike = [](const PlanCandidate& a, const PlanCandidate& b) { return a.shape() == b.shape(); };
  return diverse_first(best_diverse(plans_.size()), alike, limit);
}

}  // namespace dtfm::search
