// Replays the task graphs of a run, one interval after the other, under the changes of the scenario.
#pragma once

#include <utility>

#include "core/base/stop.hpp"
#include "simulator/graph/graph_replay.hpp"
#include "simulator/iteration/iteration_graph.hpp"
#include "simulator/run/scenario_profiles.hpp"

namespace dtfm::sim {

struct ReplayedInterval {
  Replay replay;
  ReplayEnd ended = ReplayEnd::finished;
  double start = 0, end = 0;  // s since the start of the run
};

/// Throws Error if `date`, in s, is after the latest time that can be simulated.
void check_date(double date);

class IntervalReplay {
 public:
  /// `stop`, unless empty, is called regularly and ends the replay by returning true.
  void set_stop(StopFunction stop) { stop_ = std::move(stop); }
  const StopFunction& stop() const { return stop_; }

  /// Replays `graph` from `now` until it is finished, or aborts it at `until`, which may be infinite.
  /// Profiles are created for a window of time that grows until the interval fits into it. Throws Error if
  /// the end exceeds the range of simulated time.
  ReplayedInterval replay_interval(LabelledGraph& graph, const ScenarioProfiles& changes, double now,
                                   double until, bool keep_unfinished = false);

 private:
  StopFunction stop_;
  double window_ = 1;  // expected upper bound of the length of the next interval, s
};

}  // namespace dtfm::sim
