// A run: iteration after iteration, broken off where machines leave, and what it takes to go on.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/run/departure_policy.hpp"
#include "simulator/run/machine_log.hpp"
#include "simulator/run/observer.hpp"
#include "simulator/run/scenario_profiles.hpp"
#include "simulator/run/stretch_player.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm {

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
///   - A device that joins, and a pipeline that is whole again, wait for the end of the iteration: weights
///     are fetched when nobody changes them, and the others wait for it.
///   - A device that leaves loses its weights. A device that is there keeps them, but those of a pipeline
///     that pauses are out of date when the others have completed an iteration. Before the first completed
///     iteration nobody fetches: every device makes its weights from the seed.
///   - An iteration that the end of the run cuts off counts neither as an iteration nor as lost.
///   - Who stops the run has what was complete by then.
class TrainingRun {
 public:
  /// The arguments must outlive this. `seed` is that of the jitter. Throws Error for a plan that cannot be
  /// run.
  TrainingRun(const Problem& problem, const Plan& plan, const Scenario& scenario, std::uint64_t seed);

  /// To be called once. Calls the observers for every stretch; asks `stop`, if there is one, now and then.
  /// Fills in `iterations`, `events`, `lost_work_s`, `stopped`, `stuck` and the counts of the report.
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
  void notice();
  void wait();
  void decide();
  void tell_places();
  void note_replacements(const Plan& next);
  std::string missing_devices() const;
  void make_graph();
  double next_departure() const;

  bool recover();
  void iterate();
  void draw_jitter();
  Played play(LabelledGraph& graph, const ScenarioProfiles& changes);
  bool stays_stuck(const Played& played) const;
  /// From now on, of the iteration that is next. `played` and `graph` must outlive it.
  Stretch stretch_of(Stretch::Kind kind, const Played& played, const LabelledGraph& graph) const;
  void show(const Stretch& stretch);
  void complete(double end);

  const Problem& problem_;
  const Scenario& scenario_;
  const DeparturePolicy& policy_;
  std::uint64_t seed_;
  RunLength length_;
  std::vector<RunObserver*> observers_;
  StretchPlayer player_;

  SimReport report_;
  double now_ = 0, known_at_ = 0;  // when the last departure will be noticed
  MachineLog machines_;
  std::vector<int> spares_;
  Plan plan_;                                      // who has which place
  std::vector<bool> running_;                      // of each pipeline
  bool is_changed_ = true;                         // since the last decision
  std::vector<bool> runs_, had_place_, is_fresh_;  // of each device; fresh: has the weights of the last
                                                   // completed iteration, for its place
  std::vector<bool> is_needed_;                    // of each device; its departure breaks off what goes on
  std::uint64_t attempts_ = 0;                     // of iterations

  std::vector<int> graph_devices_;  // that the graph was made for, by pipeline
  LabelledGraph graph_;
  std::vector<double> amounts_;  // of the graph's tasks, without jitter
  std::optional<ScenarioProfiles> changes_;
};

}  // namespace dtfm
