#include "simulator/report/device_usage.hpp"

#include <algorithm>

#include "core/base/index.hpp"
#include "core/base/stoppable_sort.hpp"
#include "simulator/iteration/device_starts.hpp"
#include "simulator/observation/interval_times.hpp"

namespace dtfm::sim {
namespace {

/// The tasks of one device in one interval.
struct DeviceTasks {
  std::vector<int> computations;
  std::vector<Interval> sending, receiving;
  std::vector<Interval> messages;  // from and to the device, from the time they are ready
};

std::vector<DeviceTasks> tasks_by_device(const RunInterval& run_interval, std::size_t devices) {
  std::vector<DeviceTasks> by_device(devices);
  const TaskGraph& graph = run_interval.graph.graph;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    throw_if_stopped(run_interval.stop, i);
    const Task& task = graph.tasks[i];
    const TaskRecord& record = run_interval.replay.tasks[i];
    if (task.kind == TaskKind::compute && has_started(record))
      by_device[at(task.host)].computations.push_back(static_cast<int>(i));
    if (!is_message(task) || !was_ready(record)) continue;
    DeviceTasks &source = by_device[at(task.host)], &destination = by_device[at(task.destination)];
    source.messages.push_back(since_ready(record, run_interval));
    destination.messages.push_back(since_ready(record, run_interval));
    if (!has_started(record)) continue;
    source.sending.push_back(busy(record, run_interval));
    destination.receiving.push_back(busy(record, run_interval));
  }
  return by_device;
}

/// Adds the messages that `task` depends on, directly or through delay tasks.
void add_awaited_messages(int task, const RunInterval& run_interval, std::vector<Interval>& messages) {
  const TaskGraph& graph = run_interval.graph.graph;
  const Task& waiting = graph.tasks[at(task)];
  for (int k = 0; k < waiting.after_count; ++k) {
    const int before = graph.after[at(waiting.first_after + k)];
    const Task& it = graph.tasks[at(before)];
    if (it.kind == TaskKind::delay) add_awaited_messages(before, run_interval, messages);
    if (is_message(it)) messages.push_back(since_ready(run_interval.replay.tasks[at(before)], run_interval));
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

/// The part of `down`, which is ascending, that lies within `window`.
std::vector<Interval> clip_to_window(const std::vector<Interval>& down, Interval window) {
  const auto first = std::partition_point(down.begin(), down.end(),
                                          [&](const Interval& it) { return it.end <= window.begin; });
  const auto last =
      std::partition_point(first, down.end(), [&](const Interval& it) { return it.begin < window.end; });
  return clip({first, last}, window);
}

/// Splits `window` into times, each computed from its own intervals. Overlapping activities would therefore
/// add up to more than the window instead of going unnoticed.
DeviceTimes split_window(Interval window, const std::vector<Interval>& computing,
                         const std::vector<Interval>& network, const std::vector<Interval>& down) {
  DeviceTimes times;
  times.compute_s = total(computing);
  times.waiting_network_s = union_length(network);
  times.down_s = total(down);
  std::vector<Interval> busy = computing;
  add(busy, network);
  add(busy, down);
  times.waiting_others_s = window.end - window.begin - union_length(std::move(busy), window);
  return times;
}

/// `window` is the time for which the device takes part in the interval.
DeviceTimes times_of(DeviceTasks tasks, const RunInterval& run_interval, Interval window,
                     const std::vector<Interval>& down) {
  const auto& records = run_interval.replay.tasks;
  stable_sort_unless_stopped(tasks.computations.begin(), tasks.computations.end(), run_interval.stop,
                             [&](int a, int b) { return records[at(a)].start < records[at(b)].start; });
  std::vector<Interval> computing, network;
  double idle_since = window.begin;
  for (const int task : tasks.computations) {
    computing.push_back(busy(records[at(task)], run_interval));
    const auto [begin, end] = computing.back();
    if (begin > idle_since) {
      std::vector<Interval> awaited_messages;
      add_awaited_messages(task, run_interval, awaited_messages);
      add(network, clip(awaited_messages, {idle_since, begin}));
    }
    idle_since = end;
  }
  add(network, clip(tasks.messages, {idle_since, window.end}));
  return split_window(window, computing, subtract(network, down), down);
}

void add(DeviceTimes& sum, const DeviceTimes& more, int times = 1) {
  sum.compute_s += times * more.compute_s;
  sum.waiting_network_s += times * more.waiting_network_s;
  sum.waiting_others_s += times * more.waiting_others_s;
  sum.down_s += times * more.down_s;
}

}  // namespace

void DeviceUsage::on_interval(const RunInterval& run_interval) {
  times_ = times(run_interval.start);
  std::vector<double> ends(times_.size(), run_interval.end);
  if (run_interval.kind == RunInterval::Kind::iteration)
    for (const auto& [device, date] : device_ends(run_interval.graph, run_interval.replay))
      ends[at(device)] = date;
  const bool overlaps_next = !run_interval.graph.ends.empty();
  std::vector<DeviceTasks> by_device = tasks_by_device(run_interval, times_.size());
  for (std::size_t device = 0; device < times_.size(); ++device) {
    if (by_device[device].computations.size() > 1000) throw_if_stopped(run_interval.stop);
    const Interval window{std::max(run_interval.start, observed_until_[device]), ends[device]};
    const std::vector<Interval> down = clip_to_window(down_[device], window);
    sending_[device].add(by_device[device].sending, overlaps_next, run_interval.repetitions);
    receiving_[device].add(by_device[device].receiving, overlaps_next, run_interval.repetitions);
    add(times_[device], times_of(std::move(by_device[device]), run_interval, window, down),
        run_interval.repetitions);
    observed_until_[device] = ends[device] + (run_interval.last_end() - run_interval.end);
  }
}

/// Between intervals and after the last one, no device computes or sends.
std::vector<DeviceTimes> DeviceUsage::times(double length_s) const {
  std::vector<DeviceTimes> times = times_;
  for (std::size_t device = 0; device < times.size(); ++device) {
    const Interval gap{observed_until_[device], length_s};
    if (gap.begin < gap.end)
      add(times[device], split_window(gap, {}, {}, clip_to_window(down_[device], gap)));
    times[device].sending_s = sending_[device].seconds();
    times[device].receiving_s = receiving_[device].seconds();
  }
  return times;
}

}  // namespace dtfm::sim
