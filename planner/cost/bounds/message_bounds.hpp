// Lower bounds on messages between pairs of `devices`, over all ways to connect them. Those that take a
// `stop` function throw WorkStopped.
#pragma once

#include <optional>
#include <vector>

#include "core/base/stop.hpp"
#include "planner/cost/bounds/spanning_tree_bound.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

/// Seconds of a hop over the smallest boundary, until both messages of a micro-batch have arrived.
SpanningTreeBound hop_costs(const IterationModel& model, const std::vector<int>& devices,
                            const StopFunction& stop);
/// Seconds for which a hop over the smallest boundary is occupied by one micro-batch. Only under gpipe are
/// forward and backward separate phases, whose times add up.
SpanningTreeBound hop_occupancies(const IterationModel& model, const std::vector<int>& devices,
                                  const StopFunction& stop);
/// For a message over the smallest boundary: seconds until it has arrived, and seconds for which it occupies
/// its link, each in the faster direction of a pair.
SpanningTreeBound one_way_costs(const IterationModel& model, const std::vector<int>& devices,
                                const StopFunction& stop);
SpanningTreeBound one_way_occupancies(const IterationModel& model, const std::vector<int>& devices,
                                      const StopFunction& stop);

/// Lower bounds on the messages of collectives: of all-reduces inside tensor-parallel groups, and of gradient
/// synchronization. Where they use the channels of hosts, a message between two hosts may be sent in parts by
/// any devices of these hosts.
class CollectiveMessages {
 public:
  CollectiveMessages(const IterationModel& model, const StopFunction& stop);

  MessageCost fastest(int from, int to) const;
  /// Maximum number of parts of any message.
  int max_parts() const { return max_parts_; }
  /// Seconds of an empty message, and seconds per byte, each in the better direction of a pair.
  SpanningTreeBound min_message_costs(const std::vector<int>& devices, const StopFunction& stop) const;
  SpanningTreeBound min_byte_costs(const std::vector<int>& devices, const StopFunction& stop) const;

 private:
  const IterationModel& model_;
  std::vector<int> host_sizes_;
  int max_parts_ = 1;
  /// If the devices of some host have different links: minimum over all messages between hosts.
  std::optional<MessageCost> least_;
};

/// The cheapest hop over the smallest boundary between devices of different groups: seconds until both
/// messages of a micro-batch have arrived, and for which one of them occupies its link.
struct HopBound {
  double total_s = 0, busy_s = 0;
};
HopBound min_hop_between(const IterationModel& model, const std::vector<std::vector<int>>& groups);

}  // namespace dtfm::cost
