#include "planner/search/iteration_time/plan_screening.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/index.hpp"
#include "planner/search/iteration_time/initial_plans.hpp"

namespace dtfm::search {
namespace {

// Chosen by hand.
constexpr double coarse_ratio = 1.25;        // between successive numbers of replicas
constexpr std::size_t screened_shapes = 10;  // shapes whose neighbourhood is evaluated

}  // namespace

void PlanScreening::offer_initial_plans(const DecidedJobPtr& job, const std::vector<Shape>& shapes,
                                        bool thorough) {
  constexpr std::size_t most = 3;
  const auto initial_plans_found = [&](int i, const PlanScore& score) {
    return initial_plans(job, shapes[at(i)], score, thorough, most, i == 0 && state_.pool.empty());
  };
  state_.offer(static_cast<int>(shapes.size()), {job}, initial_plans_found, !thorough);
  state_.record_convergence();
}

/// Copies the pointer, because the pool may move the plan that it belongs to.
void PlanScreening::screen_shapes(const DecidedJobPtr job) {
  screen_coarse_grid(job);
  screen_near_best(job);
}

/// Shapes with more devices come first, because they are most promising if evaluations run out.
void PlanScreening::screen_coarse_grid(const DecidedJobPtr& job) {
  std::vector<Shape> shapes = possible_shapes(*job, state_.options.limits, fine_ratio);
  if (shapes.size() > max_shapes_to_enumerate)
    shapes = possible_shapes(*job, state_.options.limits, coarse_ratio);
  std::stable_sort(shapes.begin(), shapes.end(), [](const Shape& a, const Shape& b) {
    return a.stages * a.replicas > b.stages * b.replicas;
  });
  offer_initial_plans(job, shapes, false);
}

void PlanScreening::screen_near_best(const DecidedJobPtr& job) {
  const std::vector<Shape> centres = state_.pool.best_shapes(*job, screened_shapes);
  std::vector<Shape> nearby;
  for (const Shape& shape : possible_shapes(*job, state_.options.limits, fine_ratio))
    if (std::any_of(centres.begin(), centres.end(), [&](const Shape& centre) {
          return std::abs(shape.stages - centre.stages) <= 1 &&
                 shape.replicas <= coarse_ratio * centre.replicas &&
                 centre.replicas <= coarse_ratio * shape.replicas;
        }))
      nearby.push_back(shape);
  offer_initial_plans(job, nearby, true);
}

}  // namespace dtfm::search
