// Runs a task graph.
#pragma once

#include <functional>
#include <limits>
#include <string_view>
#include <vector>

#include "simulator/graph/task_graph.hpp"

namespace dtfm::sim {

/// Cut: it ran when the replay was ended. Blocked: it waits, or what it does has come to a stand for ever.
enum class TaskState { done, failed, blocked, aborted };

/// "DONE", "FAILED", "BLOCKED", "CUT"
constexpr std::string_view name_of(TaskState state) {
  switch (state) {
    case TaskState::done:
      return "DONE";
    case TaskState::failed:
      return "FAILED";
    case TaskState::aborted:
      return "CUT";
    case TaskState::blocked:
      break;
  }
  return "BLOCKED";
}

/// Dates in seconds; NaN where the task did not get that far.
struct alignas(32) TaskRecord {
  static constexpr double never = std::numeric_limits<double>::quiet_NaN();
  TaskState state = TaskState::blocked;
  double ready = never, start = never, finish = never;
};

struct ReplayOptions {
  double start = 0;  // the date at which the graph begins: profiles and failures are then where they are
  double until = std::numeric_limits<double>::infinity();  // nothing happens after it
  std::function<bool()> stop = {};  // asked every `dates_per_stop_check` dates; nothing: never
  bool keep_unfinished = false;          // fill in Replay::rest
};

/// What was left of a task when the replay was cut: of a flow its bytes, after `overhead` seconds; of a
/// computation its work; of a delay, or of a flow whose last byte was on its way, seconds.
struct UnfinishedTask {
  int task = no_index;
  bool is_delay = false;  // seconds
  double overhead = 0, amount = 0;
};

enum class ReplayEnd {
  finished,  // every task has ended
  aborted,       // at ReplayOptions::until
  deadlocked,     // what is left is blocked
  stopped,   // by ReplayOptions::stop
};

struct Replay {
  ReplayEnd ended = ReplayEnd::finished;
  std::vector<TaskRecord> tasks;
  std::vector<UnfinishedTask> unfinished;  // of those that ran at the end, if it was asked for and that is finite
  double makespan = 0;         // the date of the last end of a task; that of the start if there is none
  double last_event_date = 0;          // the date of the last that happened
  long long events = 0, flows = 0;
};

/// How many dates at which something happens lie between two questions of a replay whether to stop: few
/// enough that nobody waits for the answer, many enough that they cost nothing.
inline constexpr int dates_per_stop_check = 64;

/// After so many changes by periodic profiles in a row that let nothing move, what waits is blocked: they
/// would go on for ever.
inline constexpr int max_futile_changes = 1'000'000;

/// What happens when `graph` is run until nothing can move any more, or no longer may. A task that waits for
/// one that has not been done, or for a link that never comes back, is blocked. Throws Error for a profile
/// whose steps by some date are too many to be told apart.
Replay replay(const TaskGraph& graph, const ReplayOptions& options = {});

}  // namespace dtfm::sim
