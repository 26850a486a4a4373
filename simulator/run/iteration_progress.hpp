// How far an iteration was when a departure broke it off, and what is left of it for those who go on.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "simulator/graph/graph_replay.hpp"
#include "simulator/iteration/iteration_graph.hpp"

namespace dtfm::sim {

/// Knows tasks by their labels, so that what was done of one graph counts in another one of the same
/// iteration, with more micro-batches or fewer pipelines.
class IterationProgress {
 public:
  /// What `replay`, which kept its rest, has done of `graph`: of the pipelines' own tasks, or with
  /// `exchanges` of all. An exchange of gradients that has begun counts for nothing else: its sums are of
  /// those who took part, and are made anew from the gradients, which all keep until the end of it.
  void add(const LabelledGraph& graph, const Replay& replay, bool include_gradient_sync = false);

  /// The tasks of `next`, an iteration of `computed`, that are `wanted` and not done. One that was under way
  /// goes on with what was left of it, before others in its place. What waits for something that was done in
  /// its own place (the devices of a stage), or for those of all places, waits for what comes before that
  /// there in the order of `next`: it may be new. Messages that have arrived are waited for by nobody.
  LabelledGraph remaining_graph(const LabelledGraph& next, const Plan& computed,
                        const std::vector<bool>& wanted) const;

 private:
  using Key = std::tuple<Activity, int, int, int, int, int, int, int, int>;
  struct State {
    bool is_done = false;
    UnfinishedTask unfinished;
  };
  static Key key_of(const TaskLabel& label);
  /// What is left of a task; nothing where it has not begun.
  const State* state_of(const TaskLabel& label) const;
  double done_layer_seconds(const TaskLabel& label) const;

  std::map<Key, State> states_;
  std::map<Key, double> done_layer_s_;  // s of backwards that were done layer by layer, without the layer
};

/// Whether all that is not done of `graph` is the optimizer's step: nobody needs anybody else any more.
bool is_synchronized(const LabelledGraph& graph, const Replay& replay);

}  // namespace dtfm::sim
