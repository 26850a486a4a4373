// A run: iteration after iteration, broken off where machines leave, and what it takes to go on.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/run/failure_policy.hpp"
#include "simulator/observation/device_timeline.hpp"
#include "simulator/observation/observer.hpp"
#include "simulator/run/recovery_graph.hpp"
#include "simulator/run/scenario_profiles.hpp"
#include "simulator/run/interval_replay.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::sim {

struct RunLength {
  int iterations = 3;
  std::optional<double> seconds;  // take the place of the number of iterations
};

/// The rules:
///   - Pipelines compute the iteration until all are done; then come the changes that have piled up.
///   - When a device of a pipeline that runs leaves, or in a recovery one that the others fetch from, the
///     iteration, or the recovery, is lost at once. After the time of detection the policy says who goes on;
///     weights that are missing are fetched; the iteration starts anew. A departure in this time is noticed
///     like the first.
///   - Where the policy lets the others go on, they do their own micro-batches until they know, are then
///     dealt those of the pipelines that were hit, all of them anew, and exchange among themselves.
///   - A device that joins, and a pipeline that is whole again, wait for the end of the iteration: weights
///     are fetched when nobody changes them, and the others wait for it.
///   - A device that leaves loses its weights. A device that is there keeps them, but those of a pipeline
///     that pauses are out of date when the others have completed an iteration. Before the first completed
///     iteration nobody fetches: every device makes its weights from the seed.
///   - A checkpoint with a period is written between two iterations, by the first pipeline that runs; all
///     wait. A departure meanwhile breaks it off, and it is written after the next iteration.
///   - Where all load the checkpoint, by the policy or because nobody else has some of the weights, the
///     iterations after it were in vain: the report no longer has them, and they are done again.
///   - An iteration that the end of the run cuts off counts neither as an iteration nor as lost.
///   - Who stops the run has what was complete by then.
class TrainingRun {
 public:
  /// The arguments must outlive this. `seed` is that of the jitter. Throws Error for a plan that cannot be
  /// run, and where the policy asks a planner and there is none. `sync_every`: replicas exchange gradients,
  /// or what stands for them, in the last of so many iterations alone, which no policy may then go on within.
  /// `paths`, of the micro-batches, are of all devices of the plan: none may leave or be left out.
  TrainingRun(const Problem& problem, const Plan& plan, const Scenario& scenario, std::uint64_t seed,
              Replanner replan = {}, int sync_every = 1, const PathSchedule* paths = nullptr);

  /// To be called once. Calls the observers for every stretch; asks `stop`, if there is one, now and then.
  /// Fills in `iterations`, `rolled_back`, `checkpoints`, `events`, `lost_work_s`, `stopped`, `stuck` and the
  /// counts of the report.
  SimReport run(const RunLength& length, const std::vector<RunObserver*>& observers,
                const std::function<bool()>& stop);

  /// Seconds that it took.
  double length_s() const { return now_; }
  /// Devices that had a place at some time, ascending.
  std::vector<int> devices() const;

 private:
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
  ReplayedInterval replay_interval(LabelledGraph& graph, const ScenarioProfiles& changes);
  bool stays_deadlocked(const ReplayedInterval& replayed) const;
  /// From now on, of the iteration that is next. `played` and `graph` must outlive it.
  RunInterval make_interval(RunInterval::Kind kind, const ReplayedInterval& replayed, const LabelledGraph& graph) const;
  void notify_observers(const RunInterval& run_interval);
  void complete_iteration(double end);

  const Problem& problem_;
  const Scenario& scenario_;
  const FailurePolicy& policy_;
  Replanner replan_;
  int sync_every_;
  const PathSchedule* paths_;
  std::uint64_t seed_;
  RunLength length_;
  std::vector<RunObserver*> observers_;
  IntervalReplay interval_replay_;

  SimReport report_;
  double now_ = 0, detected_at_ = 0;  // when the last departure will be noticed
  DeviceTimeline device_timeline_;
  std::vector<int> spares_;
  Plan initial_plan_, plan_;                    // as it was given; who has which place now
  std::vector<bool> running_;           // of each pipeline
  bool needs_decision_ = true;              // since the last decision
  bool has_event_ = false;              // somebody has come or gone since
  bool iteration_aborted_ = false;              // one who was needed has left since
  std::vector<bool> is_running_, was_assigned_;  // of each device
  std::vector<StageShard> held_shards_;             // where the weights of the last completed iteration are
  std::vector<bool> is_needed_;         // of each device; its departure breaks off what goes on
  std::uint64_t attempts_ = 0;          // of iterations

  double iteration_start_ = 0;              // when the iteration began that goes on
  std::vector<double> partial_work_s_;  // that each device has computed in earlier parts of it
  std::vector<bool> has_failed_;            // of each device: it has left since

  std::size_t checkpointed_iterations_ = 0;      // iterations that the checkpoint has, if it has a period
  double checkpointed_at_ = 0;        // when it was written
  double uncheckpointed_work_s_ = 0;  // device-seconds of the iterations after it

  Plan graph_plan_;  // that the graph was made for
  LabelledGraph graph_;
  std::vector<double> amounts_;  // of the graph's tasks, without jitter
  std::optional<ScenarioProfiles> changes_;
};

}  // namespace dtfm::sim
