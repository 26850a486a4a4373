// What to plan, or which plan to score.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/cluster/calibration.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"
#include "core/plan/target_settings.hpp"
#include "planner/api/finalist_simulation.hpp"
#include "planner/api/question.hpp"
#include "planner/search/comm_cost/strategy.hpp"
#include "planner/search/iteration_time/iteration_search.hpp"

namespace dtfm::api {

// Names of planner/search for cli.
using search::default_strategy;
using search::NoSuchShape;
using search::strategies;
using search::strategy_named;
using search::WarmStart;

/// The result of a search is at most this share slower than its best plan.
inline constexpr double default_near_equal = 0.001;

struct PlanRequest {
  Problem problem;
  /// Objective, limits, budget, seed, threads and warm start. `common.on_progress` reports progress, and
  /// `common.stop` cancels the search as well as the simulations: the best plan so far is returned.
  search::IterationSearchOptions options = {};
  std::vector<NamedScenario> scenarios = {nominal_scenario()};  // at least one
  RobustCriterion robust = RobustCriterion::mean;
  /// Plans whose simulated objective is at most this share above the best one are near-equal. Of these, the
  /// result is the one that is best in the mean over all perturbations (sensitivity.hpp), except where the
  /// fastest is kept (find_plans.hpp).
  double near_equal = default_near_equal;
  std::optional<CalibrationUncertainty> spread =
      {};  // of the constants; if absent, intervals use the errors on published runs
  std::string strategy = std::string(search::default_strategy);  // of a search by communication cost
  bool explains = false;                                         // what limits the plan
  bool advises = false;                                          // a better plan than a given one
  /// The job without the restrictions of its target, to advise whether a plan fits in memory without it.
  std::optional<Job> untargeted = {};
  std::optional<PlanQuestion> question = {};  // asked instead of the objective, which is iteration time
  std::string running_plan = {};              // file name of the running plan, for a warm start
};

/// A plan made elsewhere.
struct GivenPlan {
  Plan plan;
  std::string file = {};                // named in errors
  std::vector<std::string> notes = {};  // of its reader
  SettingSet undecided = {};            // settings that neither its file nor the job decides
  /// Time between checkpoints, for scenarios that leave it open; empty: it is chosen by simulation.
  std::optional<double> checkpoint_period_s = {};
  /// The job comes from the plan's file. Its flushes are then decisions of a planner, which do not limit the
  /// search for a better plan.
  bool brings_job = false;
};

}  // namespace dtfm::api
