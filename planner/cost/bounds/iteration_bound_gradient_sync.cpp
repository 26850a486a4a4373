// The parts of IterationBounds that concern messages and gradient synchronization.
#include <algorithm>
#include <limits>

#include "planner/cost/bounds/iteration_bound.hpp"
#include "planner/cost/iteration_time/gradient_sync_time.hpp"

namespace dtfm::cost {

/// Lower bound on `messages` consecutive messages between any two devices, `bytes` in total.
double IterationBounds::message_s(double messages, double bytes) const {
  double min_s = best_links_.empty() ? 0 : std::numeric_limits<double>::infinity();
  for (const Line& line : best_links_)
    min_s = std::min(min_s, messages * line.fixed_s + bytes * line.seconds_per_byte);
  return min_s;
}

/// Lower bound on the time from when all of `replicas` (at least two) devices have their gradients until the
/// last of them has the sum. The messages connect the devices, so they cross the most expensive pair of some
/// spanning tree, in both directions except in rings; all bounds are minima over the choice of devices.
double IterationBounds::sync_s(int replicas, double bytes) const {
  const auto message = [&](double part) {
    return std::max(
        {message_s(1, part), message_fixed_.max_edge(replicas), part * message_per_byte_.max_edge(replicas)});
  };
  const SyncPattern pattern = sync_pattern(model_.sync);
  const double part = pattern.sends_all ? bytes : bytes / replicas,
               messages = pattern.messages ? pattern.messages(replicas) : 2;
  double least_s = std::max(messages * message_s(1, part), (pattern.returns ? 2 : 1) * message(part));
  if (pattern.traffic == SyncPattern::Traffic::around_ring)  // each replica sends once per round
    least_s = std::max(least_s, messages * part * message_per_byte_.max_edge(replicas));
  return least_s;
}

/// If only some synchronizations are compressed: the smaller of both sizes, because a ratio may exceed 1. The
/// second half of those of a sharded optimizer sends parameters: the smaller of both halves.
double IterationBounds::min_gradient_bytes(std::pair<int, int> layers) const {
  double least = model_.stages.gradient_bytes(layers, true, true);
  if (model_.problem.job.execution.compression.bandwidth_threshold)
    least = std::min(least, model_.stages.gradient_bytes(layers, true, false));
  if (model_.sharding.optimizer) least = std::min(least, model_.stages.parameter_bytes(layers, true));
  return least;
}

double IterationBounds::compressed_sync_s(int replicas, double bytes) const {
  // A device of a sharded optimizer decompresses only its part, and sends its parameters uncompressed.
  const bool all_compress =
      !model_.problem.job.execution.compression.bandwidth_threshold && !model_.sharding.optimizer;
  return sync_s(replicas, bytes) + (all_compress ? 2 * model_.stages.gradient_compression_s(bytes) : 0);
}

}  // namespace dtfm::cost
