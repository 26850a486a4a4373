// Ways for micro-batches that visit a share of the stages, planned in time so that no two of them need a
// device or a link at once: prioritized planning on a reservation table (Silver, Cooperative Pathfinding,
// AIIDE 2005), for the paths of SkipPipe (Blagoev et al., arXiv 2502.19913).
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "planner/core/intervals.hpp"
#include "planner/core/schedule/path_schedule.hpp"

namespace dtfm::search {

/// A device of a stage.
struct StageResource {
  Visit place;
  double forward_s = 0, backward_s = 0;             // of a micro-batch
  double output_bytes = 0;                          // that it sends on; as many gradients come back
  int max_in_flight = std::numeric_limits<int>::max();  // micro-batches, each from its forward to its backward
};

/// That meets no other.
struct Message {
  double busy_s = 0;           // that it takes its links
  double latency_s = 0;        // until it is there
  std::span<const int> links;  // that it fills, numbered from 0
};

struct RoutingProblem {
  std::vector<std::vector<StageResource>> stages;  // at least one device each
  int micro_batches = 1;
  int skipped = 0;    // stages that each leaves out, neither the first nor the last
  bool allow_swaps = true;  // may two neighbouring stages, neither the first nor the last, be visited in reverse?
  /// Between two devices of different stages, numbered stage by stage.
  std::function<Message(int from, int to, double bytes)> message;
  long long budget = 2'000'000;  // steps from device to device that searches may look at
};

struct Routing {
  PathSchedule schedule;
  std::vector<Interval> planned;  // of each computation, in the order of the schedule
  int greedy = 0;                 // micro-batches that were not searched a way for
};

/// One micro-batch after the other takes the way on which its forward is done first, given all that those
/// before it have taken, forward and backward; a forward waits until its device has room. (To start earlier
/// never means to be done later, so the best way to a device is part of every best way over it.) All stages
/// in the middle are visited equally often, give or take one; of the visits of a stage its devices have
/// shares in proportion to their speeds, rounded by largest remainder. When the budget is spent, the rest
/// visit the stages that lack most visits, each on the device that is done first.
///
/// The table leaves gaps that nothing fits. So the ways are gone once more, by devices that are never idle
/// while there is something to compute (path_dispatch.hpp); the order that is done first is the schedule.
///
/// The table knows of each link either one message that fills it, or nothing: what several share without any
/// of them filling it is left to the simulator. Throws Error for more computations than can be simulated.
Routing route(const RoutingProblem& problem);

/// When the last computation is planned to be done, s.
double end_time(const Routing& routing);

}  // namespace dtfm::search
