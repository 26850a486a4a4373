// Simulates a training run iteration by iteration, with failures, recoveries and checkpoints of a scenario.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/infinity.hpp"
#include "core/base/stop.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"
#include "simulator/observation/observer.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/run/failure_policy.hpp"
#include "simulator/run/recovery_graph.hpp"
#include "simulator/run/run_devices.hpp"
#include "simulator/run/run_graphs.hpp"
#include "simulator/run/run_record.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::sim {

struct RunLength {
  int iterations = 3;
  std::optional<double> seconds;  // simulated time, which replaces the number of iterations
};

/// What a checkpoint contains that is written periodically.
struct PeriodicCheckpoint {
  explicit PeriodicCheckpoint(const std::optional<Checkpoint>& checkpoint)
      : exists(checkpoint && checkpoint->period_s > 0), period_s(exists ? checkpoint->period_s : infinity) {}
  bool is_due(double date) const { return date - written_at >= period_s; }

  bool exists;
  double period_s;
  double written_at = 0;       // s
  std::size_t iterations = 0;  // in the checkpoint
  double work_after_it_s = 0;  // device-seconds of later iterations
};

/// Rules of the simulation:
///   - Changes that accumulate during an iteration take effect when all running pipelines have completed it.
///   - When a device of a running pipeline leaves, or in a recovery a device that others fetch from, the
///     iteration or recovery is lost immediately. After the detection time the policy decides which pipelines
///     run, missing weights are fetched, and the iteration starts again. A failure during the detection time
///     is detected in the same way.
///   - If the policy resumes iterations, unaffected pipelines continue with their own micro-batches until the
///     failure is detected. Then all micro-batches of the affected pipelines are redistributed to them, and
///     they synchronize gradients among themselves.
///   - A device that joins, and a pipeline that is complete again, wait for the end of the iteration, because
///     weights can only be fetched while they do not change. The others wait meanwhile.
///   - A device that leaves loses its weights. An available device keeps its weights, but those of a paused
///     pipeline are outdated once the others have completed an iteration. Before the first completed
///     iteration nothing is fetched: every device initializes its weights from the seed.
///   - With optimizer sharding, the running pipelines share the state among each other. When others run, they
///     fetch what changes hands. The share of a device that has left comes from a device that has the same,
///     or from the checkpoint.
///   - A periodic checkpoint is written between two iterations by the first running pipeline (with optimizer
///     sharding, by the first one with each share), while all others wait. A failure meanwhile aborts it, and
///     it is written after the next iteration.
///   - If it is known at the end of an iteration that a device of a running pipeline will leave, and the run
///     would then load the checkpoint, it is written at once, if that was not known when it was written last.
///     A failure that was known needs no detection.
///   - When all devices load the checkpoint, because of the policy or because no device has some of the
///     weights, the iterations after it are lost: they are removed from the report and repeated.
///   - Without an iteration barrier, each device begins an iteration when it has completed its own previous
///     one, unless a failure, a recovery or a checkpoint comes between them. The length of an iteration is
///     the time from the end of the previous one to its own end.
///   - Identical consecutive iterations are replayed once and counted several times: only with a barrier,
///     without jitter or `sync_every`, after the last change of a trace, and up to the next event, checkpoint
///     or end of the run.
///   - An iteration that is incomplete at the end of the run counts neither as an iteration nor as lost.
///   - A run that is interrupted reports what was complete by then.
class TrainingRun {
 public:
  /// The arguments must outlive this. `seed` is the seed of the jitter. `sync_every`: replicas synchronize
  /// gradients (or parameters) only in the last of this many iterations; above 1, policies that resume
  /// iterations are not supported. `paths` of micro-batches, if given, cover all devices of the plan, so that
  /// none may leave or be excluded. `stop` is called regularly, also by the constructor, and interrupts the
  /// run by returning true. Throws Error for a plan that cannot be run, for unsupported combinations, and if
  /// the policy needs a planner but `replan` is empty.
  TrainingRun(const Problem& problem, const Plan& plan, const Scenario& scenario, std::uint64_t seed,
              StopFunction stop = {}, Replanner replan = {}, int sync_every = 1,
              const PathSchedule* paths = nullptr);

  /// May be called only once. Notifies the observers of every interval. Fills in `iterations`, `rolled_back`,
  /// `checkpoints`, `events`, `lost_work_s`, `stopped`, `deadlocked` and the counts of the report.
  SimReport run(const RunLength& length, const std::vector<RunObserver*>& observers);

  double length_s() const { return devices_.now(); }
  /// Devices that were assigned to a slot at some time, ascending.
  std::vector<int> devices() const { return record_.assigned_devices(); }

 private:
  void run_iterations();
  bool is_over() const;
  void wait_for_join();
  void decide();
  void replan();
  void assign(const Plan& plan);
  void prepare_graph();

  void run_iteration();
  void finish_iteration(const ReplayedInterval& replayed, const LabelledGraph& graph, double earlier_work_s);
  void complete_iteration(const ReplayedInterval& replayed, const LabelledGraph& graph,
                          double earlier_work_s);
  int identical_iterations(const RunInterval& done) const;

  std::vector<StageShard> wanted_shards() const;
  std::vector<Fetch> plan_missing_fetches() const;
  bool recover();
  void fetch(const std::vector<Fetch>& fetches);
  void roll_back();
  bool needs_checkpoint_before_failure() const;
  void write_checkpoint();

  const Problem& problem_;
  const Scenario& scenario_;
  const FailurePolicyTraits& policy_;
  Replanner replan_;
  int sync_every_;
  std::vector<int> spares_;
  StopFunction stop_;
  RunLength length_;

  RunRecord record_;
  RunDevices devices_;
  RunGraphs graphs_;
  PeriodicCheckpoint checkpoint_;
  Plan initial_plan_, plan_;    // as given or replanned; with the currently assigned devices
  std::vector<bool> running_;   // [pipeline]
  double iteration_start_ = 0;  // s from which the length of the current iteration counts
};

}  // namespace dtfm::sim
