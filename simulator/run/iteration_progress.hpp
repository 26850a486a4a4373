// The progress of an iteration that a failure aborted, and the rest of it that unaffected pipelines resume.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "simulator/graph/graph_replay.hpp"
#include "simulator/iteration/iteration_graph.hpp"

namespace dtfm::sim {

/// Identifies tasks by their labels, so that tasks of one graph that are done count as done in another graph
/// of the same iteration, which may have more micro-batches or fewer pipelines.
class IterationProgress {
 public:
  /// Records which tasks of `graph` were done or started in `replay`, which must have kept unfinished tasks.
  /// Without `include_gradient_sync`, only tasks of pipelines count: a gradient synchronization that has
  /// begun must be repeated among the remaining pipelines, because its sums include those that failed. It
  /// starts again from the gradients, which all devices keep until the synchronization ends.
  void add(const LabelledGraph& graph, const Replay& replay, bool include_gradient_sync = false);

  /// The tasks of `next`, an iteration of `computed`, that are `wanted` and not done. A task that had started
  /// resumes with what remained of it, before other tasks of its slot (the devices of a stage). A dependency
  /// that is done and belongs to the same slot is replaced by the unfinished tasks that precede it there in
  /// the order of `next`, which may be new; so is every dependency of a task that belongs to no pipeline.
  /// Messages that have arrived are no longer waited for.
  LabelledGraph remaining_graph(const LabelledGraph& next, const Plan& computed,
                                const std::vector<bool>& wanted) const;

 private:
  using Key = std::tuple<Activity, int, int, int, int, int, int, int, int>;
  struct State {
    bool is_done = false;
    UnfinishedTask unfinished;
  };
  static Key key_of(const TaskLabel& label);
  /// The recorded state of a task; null if it has not started.
  const State* state_of(const TaskLabel& label) const;
  double done_layer_seconds(const TaskLabel& label) const;

  std::map<Key, State> states_;
  /// Seconds done of backward passes that are computed layer by layer, by the key without the layer.
  std::map<Key, double> done_layer_s_;
};

/// Whether only optimizer steps of `graph` remain, so that no device depends on another any more.
bool is_synchronized(const LabelledGraph& graph, const Replay& replay);

}  // namespace dtfm::sim
