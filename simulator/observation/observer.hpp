// Interface of everything that observes a run while it is simulated: statistics, traces, task lists.
#pragma once

#include "core/base/stop.hpp"
#include "simulator/engine/clock.hpp"
#include "simulator/graph/graph_replay.hpp"
#include "simulator/iteration/iteration_graph.hpp"

namespace dtfm::sim {

/// An interval of a run: an iteration, an iteration that a failure aborted, a recovery, or the writing of a
/// checkpoint. If the remaining pipelines resume an iteration after a failure, each part of it up to a
/// failure is an interval of kind `part`. The last part, in which the iteration is completed or lost, has the
/// kind of a whole iteration but contains only the tasks that remained.
struct RunInterval {
  enum class Kind { iteration, lost_iteration, recovery, checkpoint, part };
  Kind kind = Kind::iteration;
  int iteration = 0;  // number of the iteration, or of the next one to be completed
  /// In s since the start of the run, like the records of `replay`. Without an iteration barrier, an
  /// iteration may start before the previous one has ended.
  double start = 0, end = 0;
  const LabelledGraph& graph;
  const Replay& replay;  // a task that a failure aborted has a start but no finish
  StopFunction stop = {};
  /// Number of identical intervals that follow each other directly, including this one. All other members
  /// describe the first.
  int repetitions = 1;

  /// Start of repetition `number`, from 0, which is also the end of the one before; `start_of(repetitions)`
  /// is the end of the last.
  double start_of(int number) const {
    return number < 2 ? (number == 0 ? start : end) : round_to_tick(start + number * (end - start));
  }
  double last_end() const { return start_of(repetitions); }
};

class RunObserver {
 public:
  virtual ~RunObserver() = default;
  /// Tells which device has which slot from now on. The stages of the plan are numbered as in task labels
  /// (expand_virtual_stages). Called at the start of the run, whether or not all devices are available, and
  /// whenever devices are replaced.
  virtual void place(const Plan&) {}
  /// Called for each interval in order. The interval is valid only during the call. May throw WorkStopped
  /// once the interval's `stop` has returned true. Then it may have recorded a part of the interval.
  virtual void on_interval(const RunInterval& run_interval) = 0;
  /// Whether `on_interval` takes account of RunInterval::repetitions. If not, it is called for each of them.
  virtual bool counts_repetitions() const { return false; }
};

}  // namespace dtfm::sim
