// Places where tasks are served one at a time: named queues and fifo hosts.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/core/index.hpp"

namespace dtfm {

/// Who is next: the larger priority, then who has been ready for longer, then who comes first in the graph.
struct Waiting {
  double priority = 0;
  double ready = 0;
  int task = 0;
};

class WaitingLines {
 public:
  explicit WaitingLines(int lines) : lines_(at(lines)) {}

  void join(int line, const Waiting& waiting) {
    lines_[at(line)].join(waiting);
    notice(line);
  }
  /// The task that was served has ended.
  void leave(int line) {
    lines_[at(line)].busy = false;
    notice(line);
  }
  bool has_news() const { return !news_.empty(); }
  /// Serves the next of every line that is free, in the order in which the lines had news.
  template <class Serve>
  void serve(const Serve& serve_task) {
    serving_.swap(news_);
    for (const int number : serving_) {
      Line& line = lines_[at(number)];
      line.noticed = false;
      if (line.busy || line.first.task == nobody) continue;
      line.busy = true;
      serve_task(line.take_first());
    }
    serving_.clear();
  }

 private:
  static constexpr int nobody = -1;

  static bool comes_later(const Waiting& a, const Waiting& b) {
    if (a.priority != b.priority) return a.priority < b.priority;
    if (a.ready != b.ready) return a.ready > b.ready;
    return a.task > b.task;
  }
  /// Lines are short: most have nobody but a first.
  struct Line {
    Waiting first{0, 0, nobody};
    std::vector<Waiting> others;  // a heap
    bool busy = false, noticed = false;

    void join(Waiting waiting) {
      if (first.task == nobody || comes_later(first, waiting)) std::swap(first, waiting);
      if (waiting.task == nobody) return;
      others.push_back(waiting);
      std::push_heap(others.begin(), others.end(), comes_later);
    }
    int take_first() {
      const int task = first.task;
      first.task = nobody;
      if (others.empty()) return task;
      std::pop_heap(others.begin(), others.end(), comes_later);
      first = others.back();
      others.pop_back();
      return task;
    }
  };
  void notice(int line) {
    if (lines_[at(line)].noticed) return;
    lines_[at(line)].noticed = true;
    news_.push_back(line);
  }

  std::vector<Line> lines_;
  std::vector<int> news_, serving_;
};

}  // namespace dtfm
