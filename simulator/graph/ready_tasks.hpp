// The tasks of a replay that wait only for their queue or host.
#pragma once

#include <vector>

#include "simulator/engine/service_queues.hpp"
#include "simulator/graph/graph_replay.hpp"
#include "simulator/graph/task_progress.hpp"

namespace dtfm::sim {

/// A task first waits for its queue, if it has one, and then, if it is a computation on a FIFO host, for its
/// host. Both run one task at a time.
class ReadyTasks {
 public:
  /// The arguments must outlive this.
  ReadyTasks(const TaskGraph& graph, const TaskProgress& progress, const std::vector<TaskRecord>& records)
      : tasks_(graph.tasks),
        progress_(progress),
        records_(records),
        queues_(graph.queues),
        hosts_(static_cast<int>(graph.hosts.size())) {}

  void add(int task) { added_.push_back(task); }
  /// Whether no task has been added since the last call of `start_all`.
  bool empty() const { return added_.empty(); }
  /// Calls `start(task)` for all tasks whose queue and host are free, including those that become ready or
  /// free meanwhile. `prefetch(task)` announces that a task will be started soon.
  template <class Start, class Prefetch>
  void start_all(const Start& start, const Prefetch& prefetch) {
    const auto enter_host = [&](int task) {
      if (const Progress& it = progress_[task]; it.is_fifo)
        enqueue(hosts_, it.host, task);
      else
        start(task);
    };
    while (!added_.empty() || queues_.has_pending() || hosts_.has_pending()) {
      starting_.swap(added_);
      for (const int task : starting_)
        if (const int queue = progress_[task].queue; queue == no_index)
          enter_host(task);
        else
          enqueue(queues_, queue, task);
      starting_.clear();
      queues_.serve(enter_host, prefetch);
      hosts_.serve(start, prefetch);
    }
  }
  void release_queue(const Progress& task) {
    if (task.queue != no_index) queues_.release(task.queue);
  }
  void release_host(const Progress& task) {
    if (task.is_fifo) hosts_.release(task.host);
  }

 private:
  void enqueue(ServiceQueues& lines, int line, int task) {
    lines.enqueue(line, task, [this](int waiting) {
      return WaitingTask{tasks_[at(waiting)].priority, records_[at(waiting)].ready, waiting};
    });
  }

  const std::vector<Task>& tasks_;
  const TaskProgress& progress_;
  const std::vector<TaskRecord>& records_;
  std::vector<int> added_, starting_;
  ServiceQueues queues_, hosts_;
};

}  // namespace dtfm::sim
