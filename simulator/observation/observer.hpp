// Who looks at a run while it is simulated: statistics, traces, lists of tasks.
#pragma once

#include "simulator/graph/graph_replay.hpp"
#include "simulator/iteration/iteration_graph.hpp"

namespace dtfm::sim {

/// A stretch of a run: an iteration, one that a departure ended early, a recovery, a checkpoint that is
/// written; or the part of an iteration up to a departure after which those who are left go on with it: the
/// last part, in which it is completed or lost, is of the kinds of whole ones, and has the tasks alone that
/// were left.
struct RunInterval {
  enum class Kind { iteration, lost_iteration, recovery, checkpoint, part };
  Kind kind = Kind::iteration;
  int iteration = 0;          // that it is, or that it tries to be
  double start = 0, end = 0;  // s since the start of the run; records of `replay` have the same origin
  const LabelledGraph& graph;
  const Replay& replay;  // a task that a departure cut off has a start and no finish
};

class RunObserver {
 public:
  virtual ~RunObserver() = default;
  /// Who has which place from now on, by stages as labels number them (expand_virtual_stages): called at the start
  /// of the run, whoever is there by then, and when devices take the places of others.
  virtual void place(const Plan&) {}
  /// Called for one stretch after the other; nothing of it is kept by the caller.
  virtual void on_interval(const RunInterval& run_interval) = 0;
};

}  // namespace dtfm::sim
