// The simulator as one call.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"
#include "planner/core/schedule/path_schedule.hpp"
#include "simulator/observation/observer.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/run/failure_policy.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::sim {

struct SimOptions {
  int iterations = 3;                   // the first is reported apart; a scenario's horizon takes their place
  std::uint64_t seed = 0;               // with the scenario's: of the jitter
  std::function<bool()> stop;           // asked now and then, by many threads; nothing: never
  std::vector<RunObserver*> observers;  // beside the report's own
  Replanner replan = {};                // for the policy that asks a planner; called by one thread a run
  int sync_every = 1;  // iterations: replicas exchange what they have learnt in the last of so many
  const PathSchedule* paths = nullptr;  // of micro-batches, over the devices of the plan; nothing: pipelines
};

/// Replays `plan` under `scenario`. The same arguments give the same report on any machine with the same
/// compiler. Throws Error for a plan that cannot be run, and for a
/// policy that asks a planner where there is none; a run that departures end is told in `stopped`.
///
/// With n iterations, tokens and model FLOPs per second are those of iterations 2 … n over the time from the
/// end of the first to the end of the run; of the only one over the whole run. So are those of all where
/// iterations are not alike: with `sync_every` (let them be whole rounds), where machines come and go, and
/// where checkpoints take time; recoveries and what was lost are in it. With `paths`, model FLOPs are those
/// of the layers that are computed.
SimReport simulate(const Problem& problem, const Plan& plan, const Scenario& scenario,
                   const SimOptions& options);

/// Seconds of one iteration in which nothing happens; of so many the mean, if replicas exchange in one of
/// them.
double undisturbed_seconds(const Problem& problem, const Plan& plan, int sync_every = 1,
                           const PathSchedule* paths = nullptr);

/// How long one undisturbed iteration takes, by how flows that compete share.
struct FairnessComparison {
  double equal_s = 0;  // alike
  double rtt_s = 0;    // inversely to their round-trip times, as those of TCP do
};
/// Nothing if `stop`, which is asked now and then, says so.
std::optional<FairnessComparison> compare_fairness(const Problem& problem, const Plan& plan,
                                                   const std::function<bool()>& stop = {},
                                                   const PathSchedule* paths = nullptr);

/// Replicas of a run that chance makes different: sample i is `simulate` with seed `options.seed` + i,
/// without observers. The same reports for any number of threads. simulator/report/samples.hpp sums them up.
std::vector<SimReport> simulate_samples(const Problem& problem, const Plan& plan, const Scenario& scenario,
                                        const SimOptions& options, int samples, int threads);

}  // namespace dtfm::sim
