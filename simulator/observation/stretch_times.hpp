// When the tasks of a stretch took place, those too that a departure cut off.
#pragma once

#include <cmath>

#include "planner/core/intervals.hpp"
#include "simulator/observation/observer.hpp"

namespace dtfm::sim {

inline bool was_ready(const TaskRecord& record) {
  return !std::isnan(record.ready);
}
inline bool has_started(const TaskRecord& record) {
  return !std::isnan(record.start);
}

/// The end of a task that has started, or of the stretch where it has none.
inline double end_of(const TaskRecord& record, const Stretch& stretch) {
  return std::isnan(record.finish) ? stretch.end : record.finish;
}

/// From its start, or the date from which it could have started, to its end.
inline Interval busy(const TaskRecord& record, const Stretch& stretch) {
  return {record.start, end_of(record, stretch)};
}
inline Interval since_ready(const TaskRecord& record, const Stretch& stretch) {
  return {record.ready, end_of(record, stretch)};
}

/// Device-seconds of computations that had begun by the end of the stretch.
inline double computed_seconds(const Stretch& stretch) {
  double sum = 0;
  for (std::size_t i = 0; i < stretch.replay.tasks.size(); ++i) {
    const TaskRecord& task = stretch.replay.tasks[i];
    if (stretch.graph.graph.tasks[i].kind != TaskKind::compute || !has_started(task)) continue;
    const Interval time = busy(task, stretch);
    sum += time.end - time.begin;
  }
  return sum;
}

/// A flow from one device to another.
inline bool is_message(const Task& task) {
  return task.kind == TaskKind::flow && task.destination != task.host;
}

}  // namespace dtfm::sim
