// Places where tasks are served one at a time: named queues and fifo hosts.
#pragma once

#include <utility>
#include <vector>

#include "planner/core/index.hpp"
#include "simulator/engine/lazy_queue.hpp"

namespace dtfm::sim {

/// Who is next: the larger priority, then who has been ready for longer, then who comes first in the graph.
struct WaitingTask {
  double priority = 0;
  double ready = 0;
  int task = 0;
};

class ServiceQueues {
 public:
  explicit ServiceQueues(int queue_count) : queues_(at(queue_count)) {}

  /// `make_entry(task)` tells what is asked of tasks that meet others.
  template <class WaitingOf>
  void enqueue(int number, int task, const WaitingOf& make_entry) {
    Queue& queue = queues_[at(number)];
    if (queue.first == no_task)
      queue.first = task;
    else
      add(queue, make_entry(queue.first), make_entry(task));
    mark_pending(number);
  }
  /// The task that was served has ended.
  void release(int queue) {
    queues_[at(queue)].busy = false;
    mark_pending(queue);
  }
  bool has_pending() const { return !pending_.empty(); }
  /// Serves the next of every line that is free, in the order in which the lines had news. Before that,
  /// `announce` is told who is now first in that line, if anybody is.
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
  /// Most have nobody but a first: only the others need memory of their own.
  struct Queue {
    int first = no_task;
    int overflow = no_queue;  // a number in `others_`
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
  std::vector<LazyQueue<WaitingTask, IsBefore>> overflow_;  // of the lines that have had some
  std::vector<int> pending_, serving_;
};

}  // namespace dtfm::sim
