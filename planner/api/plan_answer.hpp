// A plan and all that is known about it: the result of plan and score.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/api/comm_cost.hpp"
#include "planner/api/find_plans.hpp"
#include "planner/api/least_bandwidth.hpp"
#include "planner/api/plan_estimate.hpp"
#include "planner/api/smallest_cluster.hpp"
#include "planner/api/target_times.hpp"
#include "planner/api/warm_start.hpp"
#include "planner/search/iteration_time/feasible_changes.hpp"

namespace dtfm::api {

/// One of the plans that were simulated to choose the result.
struct Finalist {
  search::PlanCandidate candidate;
  std::vector<SimulatedTimes> simulated = {};  // by scenario; empty if it was not simulated
  Sensitivity sensitivity = {};                // empty if it is not known
};

/// How a plan was found.
struct SearchSummary {
  std::string strategy;
  std::uint64_t seed = 0;
  long long evaluations = 0;
  search::Stopped stopped = search::Stopped::converged;    // the search, before the simulations
  std::vector<search::ConvergencePoint> convergence = {};  // costs in the unit that the search minimizes
  bool proves = false;                                     // the request asked for a proof of optimality
  std::vector<std::pair<int, std::string>> unusable = {};  // devices that cannot be used, with reasons
  std::vector<int> unpriced = {};           // devices not used because their price is needed but unknown
  std::vector<std::string> discarded = {};  // why plans could not be evaluated: internal errors
};

/// The plan that the planner recommends instead of a given one. If it is not simulated, the search was
/// interrupted or late: it is the best plan so far, and the plans are compared by their estimates.
struct Advice {
  Finalist plan;
  /// Relative reduction of the objective; not positive if no better plan was found; nullopt if the objective
  /// of the given plan is unknown or infinite.
  std::optional<double> gain;
};

/// How a plan differs from the running plan from which the search started.
struct WarmStartAnswer {
  std::string plan;  // name of the running plan
  double horizon_s = 0;
  WarmStartResult result;
};

/// The candidates of a Pareto search. `pareto_points` selects those that no other one dominates.
struct ParetoFront {
  search::ParetoSearch search;
  std::vector<FinalistResult> results;  // one per candidate of `search`, or empty
};

/// Parts of an answer for which there was not enough time.
struct UnfinishedParts {
  bool explanation = false, target_times = false, advice = false;
};

/// What is not known is empty. Sentences about it are made by planner/io.
struct PlanAnswer {
  Problem problem;  // with the job as the plan decides it
  Plan plan;
  Objective objective = Objective::iteration_time;
  std::optional<CommCostAnswer> comm_cost = {};     // of a plan by communication cost
  std::optional<PlanEstimate> estimate = {};        // of a plan by iteration time
  std::optional<PredictionInterval> interval = {};  // for measured iteration times
  std::optional<PlanBound> lower_bound = {};
  std::optional<SearchSummary> search = {};  // of a plan that was searched for
  SimulationStatus simulation = SimulationStatus::done;
  std::string simulation_error = {};     // if `simulation` is `failed`
  std::vector<Finalist> finalists = {};  // beginning with the plan itself
  /// Per iteration by the criterion of the request; infinite if none is completed, empty if not simulated.
  std::optional<double> seconds = {};
  double paid_share = 1;  // as in FinalistResult
  std::vector<SimulatedTimes> fastest_undisturbed = {};  // as in FoundPlans
  std::optional<CheckpointPeriod> checkpoint_period = {};
  std::optional<cost::PlanExplanation> explanation = {};
  std::optional<SmallestCluster> smallest_cluster = {};  // with the question of that name
  std::optional<LeastBandwidth> least_bandwidth = {};    // likewise
  std::optional<Advice> advice = {};
  std::vector<TargetTime> targets = {};  // empty if the plan is made for one
  std::optional<WarmStartAnswer> warm_start = {};
  std::optional<ParetoFront> front = {};
  std::optional<cost::MemoryNeed> shortage = {};  // of all plans, if it proves that none fits in memory
  std::optional<std::vector<search::FeasibleChange>> feasible_changes = {};  // if no plan fits in memory
  bool is_given = false;                                                     // the plan was made elsewhere
  std::vector<std::string> reader_notes = {};                                // of the reader of a given plan
  SettingSet undecided = {};  // settings for which defaults are used
  UnfinishedParts unfinished = {};

  bool fits() const { return finalists.empty() || finalists.front().candidate.deficit_bytes <= 0; }
  /// Whether the plan fits in memory and, as far as is known, completes an iteration under every scenario,
  /// and whether a smallest cluster is fast enough.
  bool is_feasible() const {
    const bool was_rejected = is_given && simulation == SimulationStatus::failed;
    return fits() && !was_rejected && std::isfinite(seconds.value_or(0)) &&
           (!smallest_cluster || smallest_cluster->is_met);
  }
  /// Times of the plan by scenario; empty if it was not simulated.
  const std::vector<SimulatedTimes>& simulated() const;
  /// What ended the search, or the simulations if they were interrupted.
  search::Stopped stopped() const;
  /// Whether the search proved that no plan is better.
  bool is_proven() const { return search && stopped() == search::Stopped::optimal; }
};

/// The plan of `candidate` with its estimate, but without simulation and search.
PlanAnswer answer_of(const search::PlanCandidate& candidate, Objective objective,
                     const std::vector<SimulatedTimes>& simulated = {});

}  // namespace dtfm::api
