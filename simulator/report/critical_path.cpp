#include "simulator/report/critical_path.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "planner/core/index.hpp"
#include "simulator/observation/stretch_times.hpp"

namespace dtfm::sim {
namespace {

/// Tasks that take turns: those of a queue, or the computations of a host. The lists of all that have
/// started, one after the other, in order of start.
class Turns {
 public:
  template <class LineOf>
  Turns(const std::vector<TaskRecord>& records, std::size_t lines, const LineOf& line_of)
      : records_(records), first_(lines + 1) {
    const auto has_line = [&](std::size_t i) { return line_of(i) != no_index && has_started(records[i]); };
    for (std::size_t i = 0; i < records.size(); ++i)
      if (has_line(i)) ++first_[at(line_of(i)) + 1];
    for (std::size_t line = 0; line < lines; ++line) first_[line + 1] += first_[line];
    tasks_.resize(first_.back());
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    for (std::size_t i = 0; i < records.size(); ++i)
      if (has_line(i)) tasks_[next[at(line_of(i))]++] = static_cast<int>(i);
    for (std::size_t line = 0; line < lines; ++line)
      std::stable_sort(place(line), place(line + 1),
                       [&](int a, int b) { return records[at(a)].start < records[at(b)].start; });
  }

  /// The one that started last before `task` in its line; no_index: there is none.
  int before(int task, int line) {
    const auto begin = place(at(line));
    const auto later = std::lower_bound(begin, place(at(line) + 1), records_[at(task)].start,
                                        [&](int a, double date) { return records_[at(a)].start < date; });
    return later == begin ? no_index : *(later - 1);
  }

 private:
  std::vector<int>::iterator place(std::size_t line) {
    return tasks_.begin() + static_cast<std::ptrdiff_t>(first_[line]);
  }

  const std::vector<TaskRecord>& records_;
  std::vector<std::size_t> first_;
  std::vector<int> tasks_;
};

class Walk {
 public:
  explicit Walk(const Stretch& stretch)
      : graph_(stretch.graph.graph),
        records_(stretch.replay.tasks),
        queues_(records_, at(graph_.queues), [&](std::size_t i) { return graph_.tasks[i].queue; }),
        hosts_(records_, graph_.hosts.size(), [&](std::size_t i) { return host_line(i); }) {}

  /// First to last.
  std::vector<int> path() {
    std::vector<int> path;
    for (int task = last(); task != no_index; task = before(task)) path.push_back(task);
    std::reverse(path.begin(), path.end());
    return path;
  }

 private:
  int host_line(std::size_t i) const {
    const Task& task = graph_.tasks[i];
    const bool takes_turns =
        task.kind == TaskKind::compute && graph_.hosts[at(task.host)].sharing == HostSharing::fifo;
    return takes_turns ? task.host : no_index;
  }

  int last() const {
    int last = no_index;
    for (std::size_t i = 0; i < records_.size(); ++i)
      if (has_started(records_[i]) && (last == no_index || records_[i].finish >= records_[at(last)].finish))
        last = static_cast<int>(i);
    return last;
  }

  int before(int task) {
    return records_[at(task)].start > records_[at(task)].ready ? before_in_line(task) : awaited(task);
  }

  int before_in_line(int task) {
    const int queue = graph_.tasks[at(task)].queue, host = host_line(at(task));
    const int in_queue = queue == no_index ? no_index : queues_.before(task, queue);
    const int on_host = host == no_index ? no_index : hosts_.before(task, host);
    if (in_queue == no_index || on_host == no_index) return std::max(in_queue, on_host);
    return records_[at(in_queue)].finish > records_[at(on_host)].finish ? in_queue : on_host;
  }

  int awaited(int task) const {
    const Task& it = graph_.tasks[at(task)];
    int last = no_index;
    for (int k = 0; k < it.after_count; ++k) {
      const int before = graph_.after[at(it.first_after + k)];
      if (last == no_index || records_[at(before)].finish > records_[at(last)].finish) last = before;
    }
    return last;
  }

  const TaskGraph& graph_;
  const std::vector<TaskRecord>& records_;
  Turns queues_, hosts_;
};

std::string text_of(const TaskLabel& label, const Topology& topology) {
  const auto id = [&](int device) { return device == no_index ? "?" : topology.devices[at(device)].id; };
  const auto message = [&](std::string_view what) {
    return fmt::format("{} {} → {}", what, id(label.device), id(label.peer));
  };
  switch (label.activity) {
    case Activity::forward:
    case Activity::backward:
      return fmt::format("compute stage {} on {}", label.stage, id(label.device));
    case Activity::send_activations:
      return message("send activations");
    case Activity::send_gradients:
      return message("send gradients of activations");
    case Activity::all_reduce:
      return message("all-reduce inside a stage");
    case Activity::exchange:
      return message("exchange gradients");
    case Activity::gather:
      return message("gather parameters");
    case Activity::compress:
      return fmt::format("compress on {}", id(label.device));
    case Activity::update:
      return fmt::format("update weights on {}", id(label.device));
    case Activity::wait:
      return "wait";
    case Activity::step:
      return "end of the iteration (overhead, barrier)";
    case Activity::fetch:
      return message("fetch weights");
    case Activity::save:
      return message("save weights");
  }
  return "";
}

}  // namespace

std::vector<CriticalStep> critical_path(const Stretch& stretch, const Topology& topology) {
  const std::vector<int> path = Walk(stretch).path();
  std::vector<CriticalStep> steps;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const TaskRecord& record = stretch.replay.tasks[at(path[i])];
    const double end =
        i + 1 < path.size() ? stretch.replay.tasks[at(path[i + 1])].start : end_of(record, stretch);
    if (end <= record.start) continue;
    const std::string text = text_of(stretch.graph.labels[at(path[i])], topology);
    if (steps.empty() || steps.back().text != text) steps.push_back({text, 0, record.start, end});
    ++steps.back().tasks;
    steps.back().end_s = end;
  }
  return steps;
}

std::vector<CriticalSum> summed(const std::vector<CriticalStep>& steps) {
  std::map<std::string, CriticalSum> by_text;
  for (const CriticalStep& step : steps) {
    CriticalSum& sum = by_text[step.text];
    sum.text = step.text;
    sum.tasks += step.tasks;
    sum.seconds += step.end_s - step.start_s;
  }
  std::vector<CriticalSum> sums;
  for (auto& [text, sum] : by_text) sums.push_back(std::move(sum));
  std::stable_sort(sums.begin(), sums.end(),
                   [](const CriticalSum& a, const CriticalSum& b) { return a.seconds > b.seconds; });
  return sums;
}

}  // namespace dtfm::sim
