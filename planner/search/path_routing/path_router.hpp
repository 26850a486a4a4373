// Routes micro-batches, each of which visits only a share of the stages, without conflicts on devices or
// links: prioritized planning on a reservation table (Silver, Cooperative Pathfinding, AIIDE 2005), for the
// paths of SkipPipe (Blagoev et al., arXiv 2502.19913).
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "core/base/intervals.hpp"
#include "core/schedule/path_schedule.hpp"

namespace dtfm::search {

/// A device of one stage.
struct StageResource {
  Visit place;
  double forward_s = 0, backward_s = 0;  // per micro-batch
  double output_bytes = 0;               // bytes sent to the next stage; gradients of the same size return
  int max_in_flight = std::numeric_limits<int>::max();  // micro-batches between their forward and backward
};

/// A message without contention.
struct Message {
  double busy_s = 0;           // how long it occupies its links
  double latency_s = 0;        // from then until it arrives
  std::span<const int> links;  // links that it saturates, numbered from 0
};

struct RoutingProblem {
  std::vector<std::vector<StageResource>> stages;  // at least one device each
  int micro_batches = 1;
  int skipped = 0;  // stages that each micro-batch skips, never the first or the last
  /// Whether two neighbouring stages, except the first and the last, may be visited in reverse order.
  bool allow_swaps = true;
  /// A message between two devices of different stages. Devices are numbered stage by stage.
  std::function<Message(int from, int to, double bytes)> message;
  long long budget = 2'000'000;  // steps between devices that all searches together may evaluate
};

struct Routing {
  PathSchedule schedule;
  std::vector<Interval> planned;  // s, by computation, in the order of the schedule
  int greedy = 0;                 // micro-batches whose path was chosen greedily, without a search
};

/// Routes one micro-batch after another: each takes the path on which its forward finishes first, given the
/// reservations of all earlier ones, forward and backward. A forward waits until its device has room.
/// (Starting earlier never means finishing later, so the best path to a device is part of every best path
/// through it.) All middle stages are visited equally often, up to one visit; the visits of a stage are
/// divided among its devices in proportion to their speeds, rounded by largest remainder. Once the budget is
/// used up, the remaining micro-batches visit the stages with the most visits left, each on the device that
/// finishes first.
///
/// The table leaves gaps into which nothing fits. So the same paths are also scheduled without idling
/// (path_dispatch.hpp), and whichever order finishes first becomes the schedule.
///
/// The table knows only links that are saturated by a single message; contention of messages none of which
/// saturates the link is left to the simulator. Throws Error if there are more computations than can be
/// simulated.
Routing route(const RoutingProblem& problem);

/// End of the last planned computation, s.
double end_time(const Routing& routing);

}  // namespace dtfm::search
