#pragma once

#include "planner/core/rng.hpp"
#include "planner/cost/comm_cost.hpp"

namespace dtfm {

/// The devices in `order`, cut into groups one after the other.
Placement placement_of(const CommCostModel& model, std::span<const int> order);
/// A balanced partition, all equally likely; neither ordered nor matched.
Placement random_placement(const CommCostModel& model, Rng& rng);

}  // namespace dtfm
