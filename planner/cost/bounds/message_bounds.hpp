// Lower bounds on messages between pairs of `devices`, over all ways to connect them. Those that take a
// `stop` function throw WorkStopped.
#pragma once

#include <vector>

#include "core/base/stop.hpp"
#include "planner/cost/bounds/spanning_tree_bound.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

/// One micro-batch over the smallest stage boundary.
struct HopBounds {
  SpanningTreeBound round_trip;            // s, until both messages have arrived
  SpanningTreeBound round_trip_occupancy;  // s, for which the slower direction is occupied
  /// Seconds until the message has arrived, and for which it occupies its link, in the faster direction of a
  /// pair.
  SpanningTreeBound one_way, one_way_occupancy;
};
HopBounds hop_bounds(const IterationModel& model, const std::vector<int>& devices, const StopFunction& stop);

/// Seconds of messages: in sequence, plus per byte.
struct MessageLine {
  double fixed_s = 0, seconds_per_byte = 0;
};

/// Lower bounds on the messages of collectives: of all-reduces inside tensor-parallel groups, and of gradient
/// synchronization. Where they use the channels of hosts, a message between two hosts may be sent in parts by
/// any devices of these hosts.
struct MessageBounds {
  int max_parts = 1;                    // of any message
  std::vector<MessageLine> best_links;  // Pareto-optimal: every pair of devices is no better than one of them
  SpanningTreeBound fixed, per_byte;  // of an empty message, and per byte, in the better direction of a pair

  /// Seconds of `messages` consecutive messages between any two devices, `bytes` in total.
  double min_s(double messages, double bytes) const;
};
MessageBounds message_bounds(const IterationModel& model, const std::vector<int>& devices,
                             const StopFunction& stop);

/// The cheapest hop over the smallest boundary between devices of different groups: seconds until both
/// messages of a micro-batch have arrived, and for which one of them occupies its link.
struct HopBound {
  double total_s = 0, busy_s = 0;
};
HopBound min_hop_between(const IterationModel& model, const std::vector<std::vector<int>>& groups);

}  // namespace dtfm::cost
