// Screening of shapes: plans of many shapes, in the layouts of initial_plans.
#pragma once

#include <vector>

#include "planner/search/iteration_time/search_state.hpp"

namespace dtfm::search {

// Chosen by hand.
inline constexpr double fine_ratio = 1.04;                  // between successive numbers of replicas
inline constexpr std::size_t max_shapes_to_enumerate = 64;  // if there are no more, all are screened

/// All functions keep the plans that they find in the state.
class PlanScreening {
 public:
  /// `state` must outlive this.
  explicit PlanScreening(SearchState& state) : state_(state) {}

  /// Plans of these shapes; `thorough`: in all layouts.
  void offer_initial_plans(const DecidedJobPtr& job, const std::vector<Shape>& shapes, bool thorough);
  /// A coarse grid of all shapes, then shapes near the best ones in all layouts.
  void screen_shapes(DecidedJobPtr job);
  void screen_coarse_grid(const DecidedJobPtr& job);
  void screen_near_best(const DecidedJobPtr& job);

 private:
  SearchState& state_;
};

}  // namespace dtfm::search
