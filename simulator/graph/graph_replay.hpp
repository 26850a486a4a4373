// Runs a task graph.
#pragma once

#include <limits>
#include <string_view>
#include <vector>

#include "simulator/graph/task_graph.hpp"

namespace dtfm {

enum class TaskState { done, failed, blocked };

/// "DONE", "FAILED", "BLOCKED"
std::string_view name_of(TaskState state);

/// Dates in seconds; NaN where the task did not get that far.
struct TaskRecord {
  static constexpr double never = std::numeric_limits<double>::quiet_NaN();
  TaskState state = TaskState::blocked;
  double ready = never, start = never, finish = never;
};

struct Replay {
  std::vector<TaskRecord> tasks;
  double makespan = 0;  // the last end of a task
  long long events = 0, flows = 0;
};

/// What happens when `graph` is run from date 0 until nothing can move any more. A task that waits for one
/// that has not been done, or for a link that never comes back, is blocked.
Replay replay(const TaskGraph& graph);

}  // namespace dtfm
