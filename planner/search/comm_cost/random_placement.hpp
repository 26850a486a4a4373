#pragma once

#include "planner/core/rng.hpp"
#include "planner/cost/comm_cost/comm_cost.hpp"

namespace dtfm::search {

/// The devices in `order`, cut into groups one after the other.
Placement placement_of(const cost::CommCostModel& model, std::span<const int> order);
/// A balanced partition, all equally likely; neither ordered nor matched.
Placement random_placement(const cost::CommCostModel& model, Rng& rng);

}  // namespace dtfm::search
