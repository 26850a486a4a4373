// Simulates a training run iteration by iteration, with failures, recoveries and checkpoints of a scenario.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"
#include "simulator/iteration/device_starts.hpp"
#include "simulator/observation/device_timeline.hpp"
#include "simulator/observation/observer.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/run/failure_policy.hpp"
#include "simulator/run/interval_replay.hpp"
#include "simulator/run/recovery_graph.hpp"
#include "simulator/run/scenario_profiles.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::sim {

struct RunLength {
  int iterations = 3;
  std::optional<double> seconds;  // simulated time, which replaces the number of iterations
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
///   - A periodic checkpoint is written between two iterations by the first running pipeline, while all
///     others wait. A failure meanwhile aborts it, and it is written after the next iteration.
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

  double length_s() const { return now_; }
  /// Devices that were assigned to a slot at some time, ascending.
  std::vector<int> devices() const;

 private:
  void run_iterations();
  bool is_over() const;
  double end_of_run() const;
  void note(double date, std::string text) { report_.events.push_back({date, std::move(text)}); }
  void stop_for(const std::string& reason);
  void interrupt();

  void advance(double date);
  void take(const DeviceEvent& event);
  void wait_for_detection();
  void wait_for_join();
  void decide();
  void replan();
  void notify_assignment();
  void note_replacements(const Plan& next);
  std::string missing_devices() const;
  void make_graph();
  double next_failure() const;

  std::vector<StageShard> wanted_shards() const;
  std::vector<Fetch> plan_missing_fetches() const;
  bool recover();
  bool fetch(const std::vector<Fetch>& fetches);
  void roll_back();
  std::size_t checkpointed_iterations() const;
  bool is_checkpoint_due() const;
  void write_checkpoint();
  bool has_periodic_checkpoint() const;
  void run_iteration();
  void finish_iteration(const ReplayedInterval& replayed, const LabelledGraph& graph);
  bool was_aborted_by_failure(const ReplayedInterval& replayed) const;
  void draw_jitter();
  void draw_jitter(LabelledGraph& graph);
  LabelledGraph graph_of(const Plan& plan) const;

  struct ResumedIteration;
  void resume_iteration(const ReplayedInterval& replayed);
  std::vector<bool> unaffected_pipelines(double until) const;
  void notify_partial(const LabelledGraph& graph, const ReplayedInterval& replayed);
  void keep_only_pipelines(const std::vector<bool>& pipelines);
  bool run_until_detected(ResumedIteration& resumed);
  bool redistribute(ResumedIteration& resumed);
  ReplayedInterval replay_interval(LabelledGraph& graph, const ScenarioProfiles& changes, double start);
  bool stays_deadlocked(const ReplayedInterval& replayed) const;
  /// An interval of the current iteration. `replayed` and `graph` must outlive it.
  RunInterval make_interval(RunInterval::Kind kind, const ReplayedInterval& replayed,
                            const LabelledGraph& graph) const;
  int notify_observers(RunInterval run_interval);
  int identical_iterations(const RunInterval& done) const;
  void complete_iteration(double end);

  const Problem& problem_;
  const Scenario& scenario_;
  const FailurePolicyTraits& policy_;
  Replanner replan_;
  int sync_every_;
  const PathSchedule* paths_;
  std::uint64_t seed_;
  RunLength length_;
  std::vector<RunObserver*> observers_;
  IntervalReplay interval_replay_;

  SimReport report_;
  double now_ = 0, detected_at_ = 0;  // s; detection time of the last failure
  DeviceTimeline device_timeline_;
  std::vector<int> spares_;
  Plan initial_plan_, plan_;                     // as given or replanned; with the currently assigned devices
  std::vector<bool> running_;                    // [pipeline]
  bool needs_decision_ = true;                   // the policy must decide before the next iteration
  bool has_event_ = false;                       // a device has left or joined since the last replanning
  bool iteration_aborted_ = false;               // a needed device has left since the last decision
  std::vector<bool> is_running_, was_assigned_;  // [device]
  std::vector<StageShard> held_shards_;          // the weights of the last completed iteration
  std::vector<bool> is_needed_;                  // [device]: its failure aborts the current activity
  std::uint64_t attempts_ = 0;                   // number of iterations started

  /// When each device completed the last iteration; empty with a barrier, and if time has passed since.
  std::vector<DeviceEnd> device_ends_;
  double iteration_start_ = 0;          // s from which the length of the current iteration counts
  std::vector<double> partial_work_s_;  // [device]: computed in earlier parts of the iteration
  std::vector<bool> has_failed_;        // [device]: it has left since the iteration started

  std::size_t checkpointed_iterations_ = 0;  // iterations in the checkpoint, if it is periodic
  double checkpointed_at_ = 0;               // s at which it was written
  double uncheckpointed_work_s_ = 0;         // device-seconds of the iterations after it

  Plan graph_plan_;  // the plan of `graph_`
  LabelledGraph graph_;
  std::vector<double> amounts_;  // of the graph's tasks without jitter
  std::optional<ScenarioProfiles> changes_;
};

}  // namespace dtfm::sim
