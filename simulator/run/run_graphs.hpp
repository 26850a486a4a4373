// The task graphs of the iterations of a training run, and the replays of its intervals.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/stop.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"
#include "simulator/graph/graph_replay.hpp"
#include "simulator/iteration/iteration_graph.hpp"
#include "simulator/run/scenario_profiles.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::sim {

struct ReplayedInterval {
  Replay replay;
  ReplayEnd ended = ReplayEnd::finished;
  double start = 0, end = 0;  // s since the start of the run
};

/// Throws Error if `date`, in s, is after the latest time that can be simulated.
void check_date(double date);

class RunGraphs {
 public:
  /// The arguments must outlive this. `seed` is that of the jitter, `paths` are those of the micro-batches or
  /// null. `stop` is called regularly and interrupts graphs and replays.
  RunGraphs(const Problem& problem, const Scenario& scenario, const PathSchedule* paths, std::uint64_t seed,
            StopFunction stop);

  /// Makes the graph of an iteration of `plan`, unless the current one can be reused. Throws Error for a plan
  /// that cannot be run, and WorkStopped. In this and the next function, `plan` has only the running
  /// pipelines, and labels get the pipeline numbers of the whole plan.
  void prepare(const Plan& plan, const std::vector<bool>& running);
  LabelledGraph make(const Plan& plan, const std::vector<bool>& running) const;
  /// The graph that was prepared, of a whole iteration.
  LabelledGraph& current() { return graph_; }
  const LabelledGraph& current() const { return graph_; }
  bool traces_change_after(double date) const { return changes_->traces_change_after(date); }

  /// Draws the jitter of the next iteration, or of the rest of the current one.
  void draw_jitter();
  void draw_jitter(LabelledGraph& graph);

  /// Replays `graph` from `start` until it is finished, or aborts it at `until`, which may be infinite.
  /// Throws Error if the end exceeds the range of simulated time.
  ReplayedInterval replay(LabelledGraph& graph, double start, double until);

 private:
  ReplayedInterval replay(LabelledGraph& graph, const ScenarioProfiles& changes, double start, double until);

  const Problem& problem_;
  const Scenario& scenario_;
  const PathSchedule* paths_;
  std::uint64_t seed_, draws_ = 0;
  StopFunction stop_;
  double window_ = 1;  // expected upper bound of the length of the next interval, s
  Plan plan_;          // of `graph_`
  LabelledGraph graph_;
  std::vector<double> amounts_;  // of the graph's tasks without jitter
  std::optional<ScenarioProfiles> changes_;
};

}  // namespace dtfm::sim
