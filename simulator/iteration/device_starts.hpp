// Iterations without a barrier: every device begins the next one when it has completed its own part.
#pragma once

#include <functional>
#include <vector>

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

/// Lets every device of `graph` begin when it has completed the iteration before, and returns the date of the
/// first, from which the graph is to be replayed. All devices begin at `barrier` if there are no `ends`, or
/// the graph is one with a barrier.
///
/// Messages of the iteration before may still be under way at that date. They do not slow down those of
/// `graph`, because every iteration is replayed alone.
double set_starts(LabelledGraph& graph, const std::vector<DeviceEnd>& ends, double barrier);

/// The last of some iterations without jitter or events, and their mean length without the first.
struct SteadyIteration {
  Replay replay;
  double start = 0;    // s at which its first device begins
  double seconds = 0;  // from the end of one iteration to the end of the next
};

/// `replay_from` replays `graph` from a date on. With a barrier, all iterations are equally long, and one is
/// enough; otherwise, there are as many as in a run of `dtfm-sim` by default. A replay that does not finish
/// is the last one.
SteadyIteration replay_steady(LabelledGraph& graph, const std::function<Replay(double start)>& replay_from);

}  // namespace dtfm::sim
