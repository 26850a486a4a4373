// Queues of tasks that are served one at a time: named queues and FIFO hosts.
#pragma once

#include <utility>
#include <vector>

#include "core/base/index.hpp"
#include "simulator/engine/lazy_queue.hpp"

namespace dtfm::sim {

/// Tasks are served by descending priority, then by the time they became ready, then by task number.
struct WaitingTask {
  double priority = 0;
  double ready = 0;
  int task = 0;
};

class ServiceQueues {
 public:
  explicit ServiceQueues(int queue_count) : queues_(at(queue_count)) {}

  /// Appends `task` to queue `number`. `make_entry(task)` returns the WaitingTask of a task; it is called
  /// only if several tasks wait in the queue.
  template <class WaitingOf>
  void enqueue(int number, int task, const WaitingOf& make_entry) {
    Queue& queue = queues_[at(number)];
    if (queue.first == no_task)
      queue.first = task;
    else
      add(queue, make_entry(queue.first), make_entry(task));
    mark_pending(number);
  }
  /// Frees the queue because the task that it served has ended.
  void release(int queue) {
    queues_[at(queue)].busy = false;
    mark_pending(queue);
  }
  bool has_pending() const { return !pending_.empty(); }
  /// Serves the next task of every queue that is free, in the order in which the queues became pending. Just
  /// before a task is served, `on_new_head` is called with the task that is now first in the queue, if any.
  template <class Serve, class Announce>
  void serve(const Serve& serve_task, const Announce& on_new_head) {
    serving_.swap(pending_);
    for (const int number : serving_) {
      Queue& queue = queues_[at(number)];
      queue.is_pending = false;
      if (queue.busy || queue.first == no_task) continue;
      queue.busy = true;
      const int task = pop_first(queue);
      if (queue.first != no_task) on_new_head(queue.first);
      serve_task(task);
    }
    serving_.clear();
  }

 private:
  static constexpr int no_task = -1, no_queue = -1;

  struct IsBefore {
    bool operator()(const WaitingTask& a, const WaitingTask& b) const {
      if (a.priority != b.priority) return a.priority > b.priority;
      if (a.ready != b.ready) return a.ready < b.ready;
      return a.task < b.task;
    }
  };
  /// Most queues never hold more than one waiting task; only the others get an overflow queue.
  struct Queue {
    int first = no_task;
    int overflow = no_queue;  // index into `overflow_`
    bool busy = false, is_pending = false;
  };

  void add(Queue& queue, WaitingTask first, WaitingTask other) {
    if (IsBefore()(other, first)) std::swap(first, other);
    queue.first = first.task;
    if (queue.overflow == no_queue) {
      queue.overflow = static_cast<int>(overflow_.size());
      overflow_.emplace_back();
    }
    overflow_[at(queue.overflow)].push(other);
  }
  int pop_first(Queue& queue) {
    const int task = queue.first;
    const bool has_others = queue.overflow != no_queue && !overflow_[at(queue.overflow)].empty();
    queue.first = has_others ? overflow_[at(queue.overflow)].pop().task : no_task;
    return task;
  }
  void mark_pending(int queue) {
    if (queues_[at(queue)].is_pending) return;
    queues_[at(queue)].is_pending = true;
    pending_.push_back(queue);
  }

  std::vector<Queue> queues_;
  std::vector<LazyQueue<WaitingTask, IsBefore>> overflow_;  // waiting tasks behind the first of a queue
  std::vector<int> pending_, serving_;
};

}  // namespace dtfm::sim
