// Plays the task graphs of a run, one stretch after the other, under what the scenario changes meanwhile.
#pragma once

#include <functional>

#include "simulator/graph/graph_replay.hpp"
#include "simulator/iteration/iteration_graph.hpp"
#include "simulator/run/scenario_profiles.hpp"

namespace dtfm::sim {

/// How a stretch ended: done, broken off, interrupted, or it never will.
struct ReplayedInterval {
  Replay replay;
  ReplayEnd ended = ReplayEnd::finished;
  double end = 0;  // s since the start of the run
};

class IntervalReplay {
 public:
  /// `stop` is asked now and then; nothing: never.
  void set_stop(std::function<bool()> stop) { stop_ = std::move(stop); }

  /// Runs `graph` from `now` until it is done or broken off at `until`, which may be infinite. Profiles are
  /// made for a window of time, which grows until the stretch fits in. Throws Error where simulated time
  /// would run out.
  ReplayedInterval replay_interval(LabelledGraph& graph, const ScenarioProfiles& changes, double now, double until,
              bool keep_unfinished = false);

 private:
  std::function<bool()> stop_;
  double window_ = 1;  // s that the next stretch may well take
};

}  // namespace dtfm::sim
