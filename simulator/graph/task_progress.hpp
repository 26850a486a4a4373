// The state of every task during a replay, and its successors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/index.hpp"
#include "core/base/stop.hpp"
#include "simulator/graph/task_graph.hpp"

namespace dtfm::sim {

enum class Phase : std::uint8_t {
  waiting,
  timed,        // runs until an end time that is known
  in_overhead,  // flow before its latency
  in_latency,   // flow before its first byte
  sharing,      // flow that transfers bytes, or computation on a host of the fluid model
  arriving,     // streamed flow after its last byte
  ended
};

/// The data of a task that the replay reads again and again, kept together: with many tasks, memory accesses
/// dominate the run time.
struct alignas(32) Progress {
  double amount = 0;  // a copy from Task, like `queue`, `host` and `kind`
  int queue = no_index, host = no_index;
  int first_successor = 0;
  int pending_dependencies = 0;  // number of tasks it still waits for
  int slot = no_index;           // in_latency: number of its FlowParameters; sharing: number of its flow
  Phase phase = Phase::waiting;
  TaskKind kind = TaskKind::delay;
  bool is_fifo = false;  // a computation on a FIFO host
};

class TaskProgress {
 public:
  /// Throws WorkStopped.
  TaskProgress(const TaskGraph& graph, const StopFunction& stop);

  Progress& operator[](int task) { return tasks_[at(task)]; }
  const Progress& operator[](int task) const { return tasks_[at(task)]; }
  /// The tasks that depend on `task`, in graph order.
  std::span<const int> successors(int task) const {
    const int first = tasks_[at(task)].first_successor;
    return std::span(successors_).subspan(at(first), at(tasks_[at(task) + 1].first_successor - first));
  }
  /// Prefetches the state of a task that will be accessed soon.
  void prefetch(int task) const { __builtin_prefetch(&tasks_[at(task)], 1); }

 private:
  void link_successors(const TaskGraph& graph, const StopFunction& stop);

  std::vector<Progress> tasks_;  // with a sentinel behind the last task
  std::vector<int> successors_;
};

}  // namespace dtfm::sim
