#include "simulator/report/device_use.hpp"

#include <algorithm>

#include "planner/core/index.hpp"
#include "simulator/report/stretch_times.hpp"

namespace dtfm {
namespace {

/// The tasks of one device in one stretch.
struct Tasks {
  std::vector<int> computations;
  std::vector<Interval> sending, receiving;
  std::vector<Interval> messages;  // from and to it, from when they are ready
};

std::vector<Tasks> tasks_by_device(const Stretch& stretch, std::size_t devices) {
  std::vector<Tasks> by_device(devices);
  const TaskGraph& graph = stretch.graph.graph;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const Task& task = graph.tasks[i];
    const TaskRecord& record = stretch.replay.tasks[i];
    if (task.kind == TaskKind::compute && has_started(record))
      by_device[at(task.host)].computations.push_back(static_cast<int>(i));
    if (!is_message(task) || !was_ready(record)) continue;
    Tasks &source = by_device[at(task.host)], &destination = by_device[at(task.destination)];
    source.messages.push_back(since_ready(record, stretch));
    destination.messages.push_back(since_ready(record, stretch));
    if (!has_started(record)) continue;
    source.sending.push_back(busy(record, stretch));
    destination.receiving.push_back(busy(record, stretch));
  }
  return by_device;
}

/// The messages that `task` waits for, those behind joins too.
void add_messages_before(int task, const Stretch& stretch, std::vector<Interval>& messages) {
  const TaskGraph& graph = stretch.graph.graph;
  const Task& waiting = graph.tasks[at(task)];
  for (int k = 0; k < waiting.after_count; ++k) {
    const int before = graph.after[at(waiting.first_after + k)];
    const Task& it = graph.tasks[at(before)];
    if (it.kind == TaskKind::delay) add_messages_before(before, stretch, messages);
    if (is_message(it)) messages.push_back(since_ready(stretch.replay.tasks[at(before)], stretch));
  }
}

DeviceTimes times_of(Tasks tasks, const Stretch& stretch) {
  DeviceTimes times;
  const auto& records = stretch.replay.tasks;
  std::stable_sort(tasks.computations.begin(), tasks.computations.end(),
                   [&](int a, int b) { return records[at(a)].start < records[at(b)].start; });
  double idle_since = stretch.start;
  for (const int task : tasks.computations) {
    const auto [begin, end] = busy(records[at(task)], stretch);
    if (begin > idle_since) {
      std::vector<Interval> awaited;
      add_messages_before(task, stretch, awaited);
      times.waiting_network_s += covered(std::move(awaited), {idle_since, begin});
    }
    times.compute_s += end - begin;
    idle_since = end;
  }
  times.waiting_network_s += covered(std::move(tasks.messages), {idle_since, stretch.end});
  times.sending_s = covered(std::move(tasks.sending));
  times.receiving_s = covered(std::move(tasks.receiving));
  return times;
}

}  // namespace

void DeviceUse::see(const Stretch& stretch) {
  std::vector<Tasks> by_device = tasks_by_device(stretch, times_.size());
  for (std::size_t device = 0; device < times_.size(); ++device) {
    const DeviceTimes times = times_of(std::move(by_device[device]), stretch);
    times_[device].compute_s += times.compute_s;
    times_[device].waiting_network_s += times.waiting_network_s;
    times_[device].sending_s += times.sending_s;
    times_[device].receiving_s += times.receiving_s;
  }
}

}  // namespace dtfm
