#include "simulator/report/device_use.hpp"

#include <algorithm>

#include "planner/core/index.hpp"
#include "simulator/observation/stretch_times.hpp"

namespace dtfm::sim {
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

double total(const std::vector<Interval>& intervals) {
  double sum = 0;
  for (const Interval& it : intervals) sum += it.end - it.begin;
  return sum;
}

void add(std::vector<Interval>& all, const std::vector<Interval>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

/// The part of `window` of `down`, which is ascending.
std::vector<Interval> down_within(const std::vector<Interval>& down, Interval window) {
  const auto first = std::partition_point(down.begin(), down.end(),
                                          [&](const Interval& it) { return it.end <= window.begin; });
  const auto last =
      std::partition_point(first, down.end(), [&](const Interval& it) { return it.begin < window.end; });
  return within({first, last}, window);
}

/// The shares of `window`, each from its own intervals: were the device to do two things at once, they would
/// add up to more than the window.
DeviceTimes shares_of(Interval window, const std::vector<Interval>& computing,
                      const std::vector<Interval>& network, const std::vector<Interval>& down) {
  DeviceTimes times;
  times.compute_s = total(computing);
  times.waiting_network_s = covered(network);
  times.down_s = total(down);
  std::vector<Interval> busy = computing;
  add(busy, network);
  add(busy, down);
  times.waiting_others_s = window.end - window.begin - covered(std::move(busy), window);
  return times;
}

DeviceTimes times_of(Tasks tasks, const Stretch& stretch, const std::vector<Interval>& down) {
  const auto& records = stretch.replay.tasks;
  std::stable_sort(tasks.computations.begin(), tasks.computations.end(),
                   [&](int a, int b) { return records[at(a)].start < records[at(b)].start; });
  std::vector<Interval> computing, network;
  double idle_since = stretch.start;
  for (const int task : tasks.computations) {
    computing.push_back(busy(records[at(task)], stretch));
    const auto [begin, end] = computing.back();
    if (begin > idle_since) {
      std::vector<Interval> awaited;
      add_messages_before(task, stretch, awaited);
      add(network, within(awaited, {idle_since, begin}));
    }
    idle_since = end;
  }
  add(network, within(tasks.messages, {idle_since, stretch.end}));
  DeviceTimes times = shares_of({stretch.start, stretch.end}, computing, without(network, down), down);
  times.sending_s = covered(std::move(tasks.sending));
  times.receiving_s = covered(std::move(tasks.receiving));
  return times;
}

void add(DeviceTimes& sum, const DeviceTimes& more) {
  sum.compute_s += more.compute_s;
  sum.waiting_network_s += more.waiting_network_s;
  sum.waiting_others_s += more.waiting_others_s;
  sum.down_s += more.down_s;
  sum.sending_s += more.sending_s;
  sum.receiving_s += more.receiving_s;
}

}  // namespace

void DeviceUse::see(const Stretch& stretch) {
  times_ = times(stretch.start);
  seen_until_ = stretch.end;
  std::vector<Tasks> by_device = tasks_by_device(stretch, times_.size());
  for (std::size_t device = 0; device < times_.size(); ++device) {
    const std::vector<Interval> down = down_within(down_[device], {stretch.start, stretch.end});
    add(times_[device], times_of(std::move(by_device[device]), stretch, down));
  }
}

/// Between stretches and after the last one nobody computes or sends.
std::vector<DeviceTimes> DeviceUse::times(double length_s) const {
  std::vector<DeviceTimes> times = times_;
  const Interval gap{seen_until_, length_s};
  if (gap.begin < gap.end)
    for (std::size_t device = 0; device < times.size(); ++device)
      add(times[device], shares_of(gap, {}, {}, down_within(down_[device], gap)));
  return times;
}

}  // namespace dtfm::sim
