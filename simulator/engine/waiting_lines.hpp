// Places where tasks are served one at a time: named queues and fifo hosts.
#pragma once

#include <utility>
#include <vector>

#include "planner/core/index.hpp"
#include "simulator/engine/lazy_queue.hpp"

namespace dtfm::sim {

/// Who is next: the larger priority, then who has been ready for longer, then who comes first in the graph.
struct Waiting {
  double priority = 0;
  double ready = 0;
  int task = 0;
};

class WaitingLines {
 public:
  explicit WaitingLines(int lines) : lines_(at(lines)) {}

  /// `waiting_of(task)` tells what is asked of tasks that meet others.
  template <class WaitingOf>
  void join(int number, int task, const WaitingOf& waiting_of) {
    Line& line = lines_[at(number)];
    if (line.first == nobody)
      line.first = task;
    else
      add(line, waiting_of(line.first), waiting_of(task));
    notice(number);
  }
  /// The task that was served has ended.
  void leave(int line) {
    lines_[at(line)].busy = false;
    notice(line);
  }
  bool has_news() const { return !news_.empty(); }
  /// Serves the next of every line that is free, in the order in which the lines had news. Before that,
  /// `announce` is told who is now first in that line, if anybody is.
  template <class Serve, class Announce>
  void serve(const Serve& serve_task, const Announce& announce) {
    serving_.swap(news_);
    for (const int number : serving_) {
      Line& line = lines_[at(number)];
      line.noticed = false;
      if (line.busy || line.first == nobody) continue;
      line.busy = true;
      const int task = take_first(line);
      if (line.first != nobody) announce(line.first);
      serve_task(task);
    }
    serving_.clear();
  }

 private:
  static constexpr int nobody = -1, none = -1;

  struct IsBefore {
    bool operator()(const Waiting& a, const Waiting& b) const {
      if (a.priority != b.priority) return a.priority > b.priority;
      if (a.ready != b.ready) return a.ready < b.ready;
      return a.task < b.task;
    }
  };
  /// Most have nobody but a first: only the others need memory of their own.
  struct Line {
    int first = nobody;
    int others = none;  // a number in `others_`
    bool busy = false, noticed = false;
  };

  void add(Line& line, Waiting first, Waiting other) {
    if (IsBefore()(other, first)) std::swap(first, other);
    line.first = first.task;
    if (line.others == none) {
      line.others = static_cast<int>(others_.size());
      others_.emplace_back();
    }
    others_[at(line.others)].push(other);
  }
  int take_first(Line& line) {
    const int task = line.first;
    const bool has_others = line.others != none && !others_[at(line.others)].empty();
    line.first = has_others ? others_[at(line.others)].pop().task : nobody;
    return task;
  }
  void notice(int line) {
    if (lines_[at(line)].noticed) return;
    lines_[at(line)].noticed = true;
    news_.push_back(line);
  }

  std::vector<Line> lines_;
  std::vector<LazyQueue<Waiting, IsBefore>> others_;  // of the lines that have had some
  std::vector<int> news_, serving_;
};

}  // namespace dtfm::sim
