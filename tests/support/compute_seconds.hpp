// What a lowered graph asks of the devices.
#pragma once

#include "simulator/lowering/graph_builder.hpp"

namespace dtfm {
using namespace sim;

/// Of all computations of a device.
inline double compute_seconds(const LabelledGraph& lowered, int device) {
  double sum = 0;
  for (const Task& task : lowered.graph.tasks)
    if (task.kind == TaskKind::compute && task.host == device) sum += task.amount;
  return sum;
}

}  // namespace dtfm
