// Entry point of the simulator: replays a plan under a scenario and reports times, throughput and usage.
#pragma once

#include <optional>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"
#include "core/base/work.hpp"
#include "core/schedule/path_schedule.hpp"
#include "core/base/stop.hpp"
#include "simulator/observation/observer.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/run/failure_policy.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::sim {

struct SimOptions {
  int iterations = 3;      // iteration times exclude the first; ignored if the scenario has a horizon
  std::uint64_t seed = 0;  // together with the scenario's seed, the seed of the jitter
  /// Called regularly, possibly by several threads; ends the run by returning true. May be empty.
  StopFunction stop;
  std::vector<RunObserver*> observers;  // in addition to those of the report
  Replanner replan = {};                // for policies that need a planner; each run calls it from one thread
  int sync_every = 1;                   // replicas synchronize gradients in the last of this many iterations
  /// Path of every micro-batch over the devices of the plan; null: each pipeline computes its own
  /// micro-batches.
  const PathSchedule* paths = nullptr;
};

/// Replays `plan` under `scenario`. The same arguments give the same report on any machine with the same
/// compiler. Throws Error for a plan that cannot be run, and if the policy needs a planner but `replan` is
/// empty. A run that cannot continue after a failure is not an error: SimReport::stopped gives the reason. An
/// automatic period of the scenario's checkpoint is Young and Daly's for this plan.
///
/// Tokens and model FLOPs per second of n ≥ 2 iterations are those of iterations 2 … n, divided by the time
/// from the end of the first iteration to the end of the run. They are those of all iterations, divided by
/// the length of the run, if there is only one iteration, or if iterations differ by design: with
/// `sync_every` > 1 (choose a multiple of it as the number of iterations), with failures or preemptions, and
/// with checkpoints that take time. The length of the run then includes recoveries and lost work. With
/// `paths`, model FLOPs are those of the layers on the paths.
SimReport simulate(const Problem& problem, const Plan& plan, const Scenario& scenario,
                   const SimOptions& options);

/// An iteration without jitter, failures or other events.
struct UndisturbedIteration {
  bool is_complete = false;  // false if it was stopped
  double seconds = 0;
  bool exceeds_memory = false;  // on some device
};
/// Simulates only the pipelines that represent the others (reduced_iteration_graph), which gives the times of
/// `simulate` with far less memory and time for plans of many interchangeable devices. `stop` is called
/// regularly and ends the iteration by returning true. Throws Error for a plan that cannot be run.
UndisturbedIteration simulate_undisturbed(const Problem& problem, const Plan& plan,
                                          const StopFunction& stop = {});

/// Seconds of an iteration without jitter, failures or other events. With `sync_every` > 1, the mean over
/// `sync_every` iterations, of which one synchronizes gradients. Without an iteration barrier, both kinds are
/// timed in steady state, each preceded by iterations of its own kind. Throws Error for a plan that cannot be
/// run, and WorkStopped.
double undisturbed_seconds(const Problem& problem, const Plan& plan, int sync_every = 1,
                           const PathSchedule* paths = nullptr, const StopFunction& stop = {});

/// Duration of an undisturbed iteration under two models of how flows share a link.
struct FairnessComparison {
  double equal_s = 0;  // in equal parts
  double rtt_s = 0;    // in inverse proportion to their round-trip times, like TCP flows
};
/// Returns nullopt if `stop`, which is called regularly, has returned true. Throws Error for a plan that
/// cannot be run.
std::optional<FairnessComparison> compare_fairness(const Problem& problem, const Plan& plan,
                                                   const StopFunction& stop = {},
                                                   const PathSchedule* paths = nullptr);

/// Independent samples of a random run: sample i is `simulate` with seed `options.seed` + i, without
/// observers. The reports do not depend on the number of workers. simulator/report/samples.hpp summarizes
/// them.
std::vector<SimReport> simulate_samples(const Problem& problem, const Plan& plan, const Scenario& scenario,
                                        const SimOptions& options, int samples, const Work& work);

}  // namespace dtfm::sim
