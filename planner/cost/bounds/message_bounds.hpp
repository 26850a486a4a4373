// What messages between pairs of `devices` cost at least, for bounds over all ways to connect them.
#pragma once

#include <vector>

#include "planner/cost/iteration_time/iteration_time.hpp"
#include "planner/cost/bounds/spanning_tree_bound.hpp"

namespace dtfm::cost {

/// Seconds of a hop over the smallest boundary, until both messages of a micro-batch are there.
SpanningTreeBound hop_costs(const IterationModel& model, const std::vector<int>& devices);
/// The same while no other micro-batch's move: forward and backward are phases of their own under gpipe
/// alone.
SpanningTreeBound hop_occupancies(const IterationModel& model, const std::vector<int>& devices);

/// Seconds of an empty message, and of a byte, in the better direction.
SpanningTreeBound min_message_costs(const IterationModel& model, const std::vector<int>& devices);
SpanningTreeBound min_byte_costs(const IterationModel& model, const std::vector<int>& devices);

}  // namespace dtfm::cost
