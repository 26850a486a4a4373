// Compute load of devices in a lowered graph.
#pragma once

#include "simulator/lowering/graph_builder.hpp"

namespace dtfm {
using namespace sim;

/// Returns the total duration of all computations on a device.
inline double compute_seconds(const LabelledGraph& lowered, int device) {
  double sum = 0;
  for (const Task& task : lowered.graph.tasks)
    if (task.kind == TaskKind::compute && task.host == device) sum += task.amount;
  return sum;
}

}  // namespace dtfm
