// Plans a job on a topology, and scores a given plan: what dtfm-plan does by iteration time, without text.
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/api/finalist_simulation.hpp"
#include "core/cluster/calibration.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"
#include "planner/search/iteration_time/pareto_search.hpp"
#include "planner/search/iteration_time/plan_score.hpp"

namespace dtfm::api {

/// Whether plans were simulated, or why they were not.
enum class SimulationStatus {
  done,
  out_of_memory,  // no plan fits the memory of its devices, and such plans are not simulated
  interrupted,    // `stop` returned true before all runs ended
  late,           // no run ended within the time limit
  failed          // the simulator rejected every plan; `simulation_error` says why
};

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
  /// result is the one that is best in the mean over all perturbations (sensitivity.hpp), except where `plan`
  /// keeps the fastest.
  double near_equal = default_near_equal;
  std::optional<CalibrationUncertainty> spread =
      {};  // of the constants; if absent, intervals use the errors on published runs
};

struct PlanResult {
  search::IterationSearchResult found;       // unusable and unpriced devices, evaluations, convergence
  std::vector<search::PlanCandidate> plans;  // best first: as simulated, or only the best estimate
  SimulationStatus simulation = SimulationStatus::done;
  std::string simulation_error;
  std::vector<FinalistResult> finalist_results;  // one per plan; empty if `simulation` is not `done`
  std::optional<search::ParetoSearch> front;     // if `keeps_pareto_front`
  std::vector<FinalistResult> pareto_results;    // one per candidate of `front`, or empty
  /// With plans for churn (churn_plans.hpp): the times, by scenario, of the plan that is fastest without it.
  std::vector<SimulatedTimes> fastest_undisturbed;
  /// Prediction interval of the iteration time under the first scenario. Empty if no plan
  /// fits in memory, or if `stop` returned true.
  std::optional<PredictionInterval> interval;

  const search::PlanCandidate& best() const { return plans.front(); }
  /// Of the best plan; empty as in FinalistResult, or if `simulation` is not `done`.
  std::optional<CheckpointPeriod> checkpoint_period() const {
    return finalist_results.empty() ? std::nullopt : finalist_results.front().checkpoint_period;
  }
  /// Times of the best plan by scenario; empty if `simulation` is not `done`.
  std::vector<SimulatedTimes> simulated() const {
    return finalist_results.empty() ? std::vector<SimulatedTimes>() : finalist_results.front().simulated;
  }
  bool fits() const { return best().deficit_bytes <= 0; }
  /// Whether the best plan completes an iteration under every scenario; true if that is not known.
  bool completes_iteration() const {
    return finalist_results.empty() || std::isfinite(finalist_results.front().seconds);
  }
  /// What ended the search, or the simulations if they were interrupted.
  search::Stopped stopped() const {
    return simulation == SimulationStatus::interrupted ? search::Stopped::interrupted : found.stopped;
  }
};

/// Searches for a plan, simulates the finalists, and ranks them by their simulated times, but with the least
/// sensitive of the near-equal ones first. The fastest one stays first if it is proven optimal, with
/// scenarios, and in a warm start. Where scenarios leave the time between checkpoints open, it is chosen for
/// each of the best few plans (checkpoint_period.hpp). If the problem has so few plans that all can be
/// enumerated, the result is the best of them (enumeration.hpp). Throws Error if no device's times are known,
/// search::NoSuchShape if no plan has the requested numbers of stages and replicas.
PlanResult plan(const PlanRequest& request);
/// Like `plan`, but never enumerates plans, and gives neither sensitivities nor a prediction interval.
PlanResult search_and_simulate(const PlanRequest& request);

struct ScoreRequest {
  Problem problem;
  Plan plan;
  Objective objective = Objective::iteration_time;
  std::vector<NamedScenario> scenarios = {nominal_scenario()};  // at least one
  RobustCriterion robust = RobustCriterion::mean;
  Work work = {};                                     // stopped, it skips the simulation
  std::optional<CalibrationUncertainty> spread = {};  // as in PlanRequest
  /// Time between checkpoints of the plan, for scenarios that leave it open; empty: it is chosen by
  /// simulation.
  std::optional<double> checkpoint_period_s = {};
};

struct ScoreResult {
  search::PlanCandidate candidate;  // the plan with its estimate
  SimulationStatus simulation = SimulationStatus::done;
  FinalistResult result;  // without times, and with infinite `seconds`, if `simulation` is not `done`
  std::optional<PredictionInterval> interval;  // as in PlanResult; empty if `simulation` is not `done`

  bool fits() const { return candidate.deficit_bytes <= 0; }
};

/// Estimates and simulates a plan as it is, with its own settings. Throws Error if the plan contradicts the
/// job (plan_conflicts), and if the times of a device are not known.
ScoreResult score(const ScoreRequest& request);

/// The objective of a plan whose iterations take `seconds`, without migration: s, USD, or device-seconds.
double objective_value(Objective objective, const search::PlanCandidate& candidate, double seconds);

}  // namespace dtfm::api
