// Searches for plans by iteration time and simulates the best ones.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "planner/api/finalist_simulation.hpp"
#include "planner/api/plan_request.hpp"
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

struct FoundPlans {
  search::IterationSearchResult found;       // unusable and unpriced devices, evaluations, convergence
  std::vector<search::PlanCandidate> plans;  // best first: as simulated, or only the best estimate
  SimulationStatus simulation = SimulationStatus::done;
  std::string simulation_error;
  std::vector<FinalistResult> finalist_results;  // one per plan; empty if `simulation` is not `done`
  std::optional<search::ParetoSearch> front;     // if `keeps_pareto_front`
  std::vector<FinalistResult> pareto_results;    // one per candidate of `front`, or empty
  /// Under churn: the times, by scenario, of the plan that is fastest without it, of those simulated.
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
FoundPlans find_plans(const PlanRequest& request);
/// Like `find_plans`, but never enumerates plans, and gives neither sensitivities nor a prediction interval.
FoundPlans search_and_simulate(const PlanRequest& request);

/// The prediction interval of the iteration time of a plan with these simulated times. Empty if it was
/// stopped.
std::optional<PredictionInterval> prediction_interval(const search::PlanCandidate& candidate,
                                                      const std::optional<CalibrationUncertainty>& spread,
                                                      const std::vector<SimulatedTimes>& simulated,
                                                      const StopFunction& stop);

}  // namespace dtfm::api
