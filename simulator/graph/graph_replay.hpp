// Executes a task graph in the discrete-event simulator.
#pragma once

#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include "core/base/stop.hpp"
#include "simulator/graph/task_graph.hpp"

namespace dtfm::sim {

/// Aborted: the task was running when the replay ended. Blocked: it waits, or its rate stays 0 forever.
enum class TaskState { done, failed, blocked, aborted };

constexpr std::string_view name_of(TaskState state) {
  constexpr std::string_view names[] = {"DONE", "FAILED", "BLOCKED", "CUT"};
  return names[static_cast<std::size_t>(state)];
}

/// Times in seconds; NaN for what the task did not reach.
struct alignas(32) TaskRecord {
  static constexpr double never = std::numeric_limits<double>::quiet_NaN();
  TaskState state = TaskState::blocked;
  double ready = never, start = never, finish = never;
};

struct ReplayOptions {
  double start = 0;  // s at which the graph starts; profiles and failures have the state of that time
  double until = std::numeric_limits<double>::infinity();  // s; the replay is aborted at this time
  StopFunction stop = {};        // called every `dates_per_stop_check` event times, and in long loops
  bool keep_unfinished = false;  // fill in Replay::unfinished
  /// The graph is that of the iteration before, so its connections may still have enlarged windows.
  bool is_repeated = false;
};

/// What remained of a task when the replay was aborted: bytes of a flow, to be sent after `overhead` seconds;
/// work units of a computation; seconds of a delay, or of a flow whose last byte had been sent.
struct UnfinishedTask {
  int task = no_index;
  bool is_delay = false;  // `amount` is in seconds
  double overhead = 0, amount = 0;
};

enum class ReplayEnd {
  finished,    // every task has ended
  aborted,     // at ReplayOptions::until
  deadlocked,  // all remaining tasks are blocked
  stopped,     // by ReplayOptions::stop
};

struct Replay {
  ReplayEnd ended = ReplayEnd::finished;
  std::vector<TaskRecord> tasks;  // empty if it was stopped before it began
  /// The tasks that were running at ReplayOptions::until, if `keep_unfinished` is set and `until` is finite.
  std::vector<UnfinishedTask> unfinished;
  double makespan = 0;         // s at which the last task ended; the start time if no task ended
  double last_event_date = 0;  // s of the last event
  long long events = 0, flows = 0;
};

/// Number of event times between two calls of ReplayOptions::stop: small enough for a quick reaction, large
/// enough that the calls cost nothing.
inline constexpr int dates_per_stop_check = 64;

/// After this many consecutive changes by periodic profiles without any progress, the replay is considered
/// deadlocked; otherwise it would never end.
inline constexpr int max_futile_changes = 1'000'000;

/// Runs `graph` until nothing can make progress any more or the options end the replay. A task is blocked if
/// it waits for a task that was not done, or for a link that never recovers. Throws Error for a profile with
/// more steps by some time than a double can count.
Replay replay(const TaskGraph& graph, const ReplayOptions& options = {});

}  // namespace dtfm::sim
