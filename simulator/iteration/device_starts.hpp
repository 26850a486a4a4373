// Iterations without a barrier: every device begins the next one when it has completed its own part.
#pragma once

#include <vector>

#include "core/base/stop.hpp"
#include "simulator/graph/graph_replay.hpp"
#include "simulator/lowering/graph_builder.hpp"

namespace dtfm::sim {

/// The date, in seconds, at which a device has completed an iteration.
struct DeviceEnd {
  int device = no_index;
  double date = 0;
};

/// When the devices completed the iteration `graph`, which must be finished, in ascending order of devices;
/// empty if it ends with a barrier.
std::vector<DeviceEnd> device_ends(const LabelledGraph& graph, const Replay& replay);

/// Sets the start delays of `graph` so that each device begins when it completed the previous iteration.
/// Returns the time at which the first device begins; replay the graph from then. All devices begin at
/// `barrier` if there are no `ends`, or the graph is one with a barrier.
///
/// Messages of the previous iteration may still be in transit then. They do not contend with those of
/// `graph`, because every iteration is replayed alone.
double set_starts(LabelledGraph& graph, const std::vector<DeviceEnd>& ends, double barrier);

/// The last of several consecutive iterations without jitter or events. `seconds` is the mean length of those
/// after the first, or that of the first if it is the only one.
struct SteadyIteration {
  Replay replay;
  double start = 0;    // s at which its first device begins
  double seconds = 0;  // from the end of one iteration to the end of the next
};

/// Replays one iteration if the graph has a barrier, because all are equally long, and otherwise as many as
/// a run of `dtfm-sim` has by default. A replay that does not finish is the last one. `stop`, unless empty,
/// ends a replay by returning true.
SteadyIteration replay_steady(LabelledGraph& graph, const StopFunction& stop = {});

}  // namespace dtfm::sim
