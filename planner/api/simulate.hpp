// Simulates a plan, or another system in place of one, under a scenario: what dtfm-sim does, without text.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/work.hpp"
#include "core/cluster/calibration.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"
#include "planner/api/finalist_simulation.hpp"
#include "planner/api/schemes/scheme.hpp"
#include "simulator/observation/observer.hpp"
#include "simulator/report/samples.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/report/timeline_comparison.hpp"
#include "simulator/scenario/scenario.hpp"
#include "simulator/simulate.hpp"
#include "simulator/swarm/swarm.hpp"

namespace dtfm::api {

struct SimulateResult;

struct SimulateRequest {
  Problem problem;  // with the job's decisions: `simulated_problem` returns that of a planned plan
  Plan plan = {};   // unless there is a scheme
  sim::Scenario scenario = {};
  std::optional<int> iterations = {};      // empty: the default, or the scenario's horizon
  std::optional<std::string> scheme = {};  // name of a scheme, whose fastest layout is simulated
  SchemeOptions options = {};              // their seed is also that of the simulation
  /// Runs of a random scenario, with consecutive seeds; empty: one run, as always of a swarm. Only a single
  /// run reports progress and is observed.
  std::optional<int> samples = {};
  Work work = {};  // layouts and samples are simulated by several threads and ranks, one run by the root

  /// Of the plan file: settings that neither it nor the job decides, the period of checkpoints for a scenario
  /// that leaves it open, and what its reader tells the user.
  SettingSet undecided = {};
  std::optional<double> checkpoint_period_s = {};
  std::vector<std::string> notes = {};

  std::optional<CalibrationUncertainty> spread =
      {};                           // of the constants; if absent, intervals use the errors on published runs
  bool estimates_accuracy = false;  // adds `interval` and `fairness`, which take further simulations
  bool records_timeline = false;
  std::optional<sim::Timeline> measured = {};  // of an iteration of a training, to compare with
  /// Returns what observes the single run, when the plan has been decided. The argument is valid during the
  /// run.
  std::function<std::vector<sim::RunObserver*>(const SimulateResult& decided)> observe = {};
};

struct SimulateResult {
  // What was simulated: the problem with the job of the scheme's layout, and the scenario with the period of
  // its checkpoints. The plan is empty for a swarm.
  Problem problem;
  Plan plan;
  sim::Scenario scenario;
  std::optional<ChosenLayout> chosen;  // of the scheme; if it has no layout, nothing was simulated
  SettingSet undecided;                // settings of the job that neither the plan nor a search decides
  std::optional<CheckpointPeriod> checkpoint_period;  // if the scenario of the request leaves it open

  sim::SimReport report;  // of the first run if there are several
  struct Samples {
    int requested = 0, finished = 0;  // fewer are finished if the work was stopped
    sim::SampleSummary summary;       // of those that finished
  };
  std::optional<Samples> samples;
  std::optional<PredictionInterval> interval;  // of the iteration time; not of swarms
  struct Swarm {
    sim::SwarmReport report;
    std::optional<double> usd_per_million_tokens;
  };
  std::optional<Swarm> swarm;
  std::optional<sim::FairnessComparison> fairness;  // not of swarms, nor if the work was stopped
  std::optional<sim::Timeline> timeline;            // of a single run, if it is recorded or compared
  std::optional<sim::TimelineComparison> comparison;
  long long tasks = 0, flows = 0, events = 0;  // of all runs

  bool has_layout() const { return !chosen || chosen->is_any(); }
  bool is_swarm() const { return chosen && chosen->swarm; }
  /// Whether the plan fits the memory of its devices and does not deadlock before it completes an iteration.
  bool is_feasible() const;
};

/// Simulates the request. Failure policies that need new plans get them from `make_replanner`. The result
/// does not depend on the number of threads. Throws Error for an unknown scheme, a scheme of which invalid
/// input prevents all layouts, and a plan that cannot be run or contradicts the job (plan_conflicts).
SimulateResult simulate(const SimulateRequest& request);

}  // namespace dtfm::api
