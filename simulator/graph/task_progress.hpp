// How far the tasks of a graph are, and who comes after them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/core/index.hpp"
#include "simulator/graph/task_graph.hpp"

namespace dtfm::sim {

enum class Phase : std::uint8_t {
  waiting,
  timed,        // until a date that is known: its end
  in_overhead,  // flows: before all else,
  in_latency,   // before the bytes,
  sharing,      // while they move (or the work of computations on shared or changing hosts is done),
  arriving,     // and, if streamed, after them
  ended
};

/// What the replay asks of a task again and again, side by side: where there are many tasks, time goes by
/// fetching them from memory.
struct alignas(32) Progress {
  double amount = 0;  // as in Task, like `queue`, `host` and `kind`
  int queue = no_index, host = no_index;
  int first_successor = 0;
  int pending_dependencies = 0;       // how many tasks it still waits for
  int slot = no_index;  // of its terms while in latency; of its flow in the network while sharing
  Phase phase = Phase::waiting;
  TaskKind kind = TaskKind::delay;
  bool is_fifo = false;  // a computation on a fifo host
};

class TaskProgress {
 public:
  explicit TaskProgress(const TaskGraph& graph);

  Progress& operator[](int task) { return tasks_[at(task)]; }
  const Progress& operator[](int task) const { return tasks_[at(task)]; }
  /// In the order of the graph.
  std::span<const int> successors(int task) const {
    const int first = tasks_[at(task)].first_successor;
    return std::span(successors_).subspan(at(first), at(tasks_[at(task) + 1].first_successor - first));
  }
  /// Begins to bring a task from memory that will be asked for soon.
  void prefetch(int task) const { __builtin_prefetch(&tasks_[at(task)], 1); }

 private:
  void link_successors(const TaskGraph& graph);

  std::vector<Progress> tasks_;  // and one more behind the last
  std::vector<int> successors_;
};

}  // namespace dtfm::sim
