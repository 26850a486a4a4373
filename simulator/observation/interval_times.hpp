// When the tasks of a run interval were executed, including tasks that a failure aborted.
#pragma once

#include <cmath>

#include "core/base/intervals.hpp"
#include "simulator/observation/observer.hpp"

namespace dtfm::sim {

inline bool was_ready(const TaskRecord& record) {
  return !std::isnan(record.ready);
}
inline bool has_started(const TaskRecord& record) {
  return !std::isnan(record.start);
}

/// The end of a task that has started; for an aborted task, the end of the interval.
inline double end_time(const TaskRecord& record, const RunInterval& run_interval) {
  return std::isnan(record.finish) ? run_interval.end : record.finish;
}

/// From the start of a task to its end.
inline Interval busy(const TaskRecord& record, const RunInterval& run_interval) {
  return {record.start, end_time(record, run_interval)};
}
/// From the time at which a task could have started to its end.
inline Interval since_ready(const TaskRecord& record, const RunInterval& run_interval) {
  return {record.ready, end_time(record, run_interval)};
}

/// Device-seconds of the computations that had started by the end of the interval.
inline double computed_seconds(const RunInterval& run_interval) {
  double sum = 0;
  for (std::size_t i = 0; i < run_interval.replay.tasks.size(); ++i) {
    const TaskRecord& task = run_interval.replay.tasks[i];
    if (run_interval.graph.graph.tasks[i].kind != TaskKind::compute || !has_started(task)) continue;
    const Interval time = busy(task, run_interval);
    sum += time.end - time.begin;
  }
  return sum;
}

/// Whether the task is a flow between two different devices.
inline bool is_message(const Task& task) {
  return task.kind == TaskKind::flow && task.destination != task.host;
}

}  // namespace dtfm::sim
