// Simulates a plan, or a swarm in place of one, under a scenario: what dtfm-sim does, without text.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/work.hpp"
#include "core/cluster/calibration.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"
#include "planner/search/path_routing/path_router.hpp"
#include "simulator/observation/observer.hpp"
#include "simulator/report/samples.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/scenario/scenario.hpp"
#include "simulator/simulate.hpp"
#include "simulator/swarm/swarm.hpp"

namespace dtfm::api {

struct SimulateRequest {
  Problem problem;  // with the job's decisions: `simulated_problem` returns that of a planned plan
  Plan plan;
  sim::Scenario scenario = {};
  std::optional<int> iterations = {};  // empty: the default, or the scenario's horizon
  std::uint64_t seed = 0;
  /// Runs of a random scenario, with consecutive seeds; empty: one run. Only a single run reports progress
  /// and has observers.
  std::optional<int> samples = {};
  Work work = {};  // only samples are simulated by several threads or ranks

  int sync_every = 1;                           // as in Layout; sync_every × `iterations` are simulated
  std::optional<search::Routing> routing = {};  // paths of micro-batches; empty: pipelines
  std::optional<sim::SwarmSetup> swarm = {};    // simulated in place of the plan
  std::optional<CalibrationUncertainty> spread =
      {};                          // of the constants; if absent, intervals use the errors on published runs
  bool compares_fairness = false;  // also simulate an undisturbed iteration with each model of link sharing
  std::vector<sim::RunObserver*> observers = {};

  const PathSchedule* paths() const { return routing ? &routing->schedule : nullptr; }
};

struct SimulateResult {
  sim::SimReport report;  // of the first run if there are several
  struct Samples {
    int requested = 0, finished = 0;  // fewer are finished if `stop` ended the others
    sim::SampleSummary summary;       // of those that finished
  };
  std::optional<Samples> samples;
  std::optional<PredictionInterval> interval;  // of the iteration time; not of swarms
  std::optional<sim::SwarmReport> swarm;
  /// If `compares_fairness`; empty for a swarm, or if `stop` returned true.
  std::optional<sim::FairnessComparison> fairness;
  long long tasks = 0, flows = 0, events = 0;  // of all runs
};

/// Simulates the request. Failure policies that need new plans get them from `make_replanner`. The result
/// does not depend on the number of threads. Throws Error for a plan that cannot be run or contradicts the
/// job (plan_conflicts).
SimulateResult simulate(const SimulateRequest& request);

}  // namespace dtfm::api
