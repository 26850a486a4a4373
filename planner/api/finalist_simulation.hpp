// Simulates the best plans of a search, because the search itself only estimates their iteration times.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/api/sensitivity.hpp"
#include "core/base/work.hpp"
#include "planner/search/iteration_time/plan_candidate.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::api {

/// How the times under several scenarios are combined: the mean of the means, the largest 95th percentile, or
/// the longest iteration. If devices leave under some scenarios, only these count.
enum class RobustCriterion { mean, p95, worst };

struct NamedScenario {
  std::string name;
  sim::Scenario scenario;
};

/// The network and the devices as the topology describes them, without failures or jitter.
inline NamedScenario nominal_scenario() {
  return {"nominal", {}};
}

/// Whether a scenario changes nothing: no events, no jitter, and no excluded devices.
bool is_nominal_scenario(const NamedScenario& named);

/// Whether devices leave under a scenario.
bool has_departures(const sim::Scenario& scenario);
bool is_under_churn(const std::vector<NamedScenario>& scenarios);

/// Iteration times of a plan under one scenario; infinite if no iteration was completed.
struct SimulatedTimes {
  std::string scenario;
  double mean_s = 0, p95_s = 0, max_s = 0;
  std::string why_none = {};  // why no iteration was completed
  /// What the run's devices cost, each as long as it is available, whether it computes or waits, relative to
  /// the plan's devices for the whole time; 1 without departures, or if a price is unknown.
  double paid_share = 1;
};

/// Where the time between checkpoints comes from, under scenarios that leave it open.
enum class PeriodSource { plan_file, young_daly, simulation };

struct CheckpointPeriod {
  double seconds = 0;  // infinite: no checkpoint is needed
  PeriodSource source = PeriodSource::young_daly;
};

struct FinalistResult {
  std::string error;                      // why the simulator rejected the plan; empty if it did not
  std::vector<SimulatedTimes> simulated;  // by scenario
  double seconds = 0;  // per iteration by the criterion; infinite if none was completed or memory is exceeded
  double paid_share = 1;         // SimulatedTimes::paid_share over the scenarios that count, weighted by time
  bool was_stopped = false;      // before all of its runs ended; then `seconds` is infinite
  bool is_preliminary = false;   // of a single run of random scenarios, because others were faster
  Sensitivity sensitivity = {};  // only of the best and near-equal plans
  /// Empty if no scenario leaves the period open; infinite if no device of the plan leaves under those that
  /// do.
  std::optional<CheckpointPeriod> checkpoint_period = {};
};

/// Runs under a random scenario.
inline constexpr int default_runs = 8;

/// Simulates every candidate under every scenario and returns one result per candidate. For a random scenario
/// the times are means over `runs` runs. The results do not depend on the number of workers. Once the
/// work is stopped, runs end early and have no times. Fewer runs are concurrent if they would take too much
/// memory together. Periods of checkpoints that scenarios leave open are first_checkpoint_period_s.
std::vector<FinalistResult> simulate_finalists(const std::vector<search::PlanCandidate>& candidates,
                                               const std::vector<NamedScenario>& scenarios,
                                               RobustCriterion robust, const Work& work,
                                               int runs = default_runs);

/// The seconds per iteration of a plan with these times under the scenarios. If devices leave under some of
/// them, only these count.
double aggregate_seconds(const std::vector<SimulatedTimes>& times,
                         const std::vector<NamedScenario>& scenarios, RobustCriterion robust);

/// Limit of the tasks (sim::tasks_of) of all finalists together: 3.8 million take about 15 s (384 devices
/// with zero2 and sharded-ps).
inline constexpr double max_finalist_tasks = 5e6;

/// The first candidate, and those of the others, in their order, that together with it and the ones before
/// have at most `max_tasks`.
std::vector<search::PlanCandidate> affordable_candidates(const std::vector<search::PlanCandidate>& candidates,
                                                         double max_tasks = max_finalist_tasks);

/// Limits the threads so that concurrent simulations take at most 2 GB of memory, but keeps one.
/// `are_nominal`: without scenarios.
Work affordable_workers(Work work, const std::vector<search::PlanCandidate>& candidates, bool are_nominal);

/// The problem with the decisions of the candidate, including its pipeline flushes, as the simulator expects
/// it.
Problem simulated_problem(const search::PlanCandidate& candidate);

}  // namespace dtfm::api
